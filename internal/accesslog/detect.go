package accesslog

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// Sureness is how sure a detection is.
type Sureness uint8

// The degrees.
const (
	Guess   Sureness = iota // fewer than four in five lines fit
	Likely                  // nearly all fit, or all of fewer than three
	Certain                 // all fit, and three at least
)

func (s Sureness) String() string {
	return [...]string{"a guess", "likely", "certain"}[min(s, Certain)]
}

// Detection is what Detect found.
type Detection struct {
	Format *Format
	Sure   Sureness
	// Lines looked at, and how many of them fit.
	Lines, Fit int
	// Notes are what the lines cannot tell, to be said to the user: formats
	// that look alike but mean different things, values left aside.
	Notes []string
}

// candidate is a format that Detect tries.
type candidate struct {
	name, text string
	nginx      bool
	rest       bool
	note       string
}

const (
	noteLookAlike = "nginx's combined format looks the same; its times are of a request's end, Apache's of its beginning"
	noteOneNumber = "the number at the end may be a duration in microseconds, milliseconds or seconds: name the format to have it used"
	noteRest      = "what follows the known fields is left aside: give the format to have it used"
	noteVHost     = "the bytes may be with headers (%O, as Debian writes) or without (%b)"
)

// candidates in the order of preference among those that fit equally: the
// more a format says the earlier.
var candidates = []candidate{
	{name: "combined", text: "%h" + commonTail + "%b" + combinedTail, note: noteLookAlike},
	{name: "vhost_combined", text: "%v:%p %h" + commonTail + "%O" + combinedTail, note: noteVHost},
	{name: "vhost_combined_upstream", text: "%v %h" + commonTail + "%b" + combinedTail},
	{name: "nginx_main", text: nginxNamed[1].text, nginx: true},
	{name: "combinedio", text: "%h" + commonTail + "%b" + combinedTail + " %I %O"},
	{name: "combined with a list of proxies' clients first", text: "%{X-Forwarded-For}i" + commonTail + "%b" + combinedTail},
	{name: "combined and request time", text: `$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" $request_time`, nginx: true},
	{name: "combined and a number", text: "%h" + commonTail + "%b" + combinedTail + " %I", note: noteOneNumber},
	{name: "vhost_combined and a number", text: "%v:%p %h" + commonTail + "%O" + combinedTail + " %I", note: noteOneNumber},
	{name: "common", text: "%h" + commonTail + "%b", note: noteLookAlike},
	{name: "vhost_common", text: "%v %h" + commonTail + "%b"},
	{name: "common and a number", text: "%h" + commonTail + "%b %I", note: noteOneNumber},
	{name: "combined and more", text: "%h" + commonTail + "%b" + combinedTail + " ", rest: true, note: noteRest},
	{name: "vhost_combined and more", text: "%v:%p %h" + commonTail + "%O" + combinedTail + " ", rest: true, note: noteRest},
	{name: "common and more", text: "%h" + commonTail + "%b ", rest: true, note: noteRest},
	{name: "common and more in quotes", text: "%h %l %u %t \"%r\" ", rest: true, note: noteRest},
}

// compile makes the candidate's format.
func (c candidate) compile(opts CompileOptions) (*Format, error) {
	opts.Name = c.name
	compile := CompileApache
	if c.nginx {
		compile = CompileNginx
	}
	f, err := compile(c.text, opts)
	if err != nil {
		return nil, err
	}
	f.rest = c.rest
	return f, nil
}

// maxDetectLines is how many lines Detect looks at.
const maxDetectLines = 200

// ErrNoFormat says that lines fit none of the formats known.
var ErrNoFormat = errors.New("accesslog: the lines fit no known format")

// Detect finds the format of a log from its first lines. ErrNoFormat if none
// fits; the Detection then says how many lines there were.
func Detect(sample [][]byte, opts CompileOptions) (Detection, error) {
	var usable [][]byte
	for _, l := range sample {
		if len(l) > 0 && l[0] != '#' && len(usable) < maxDetectLines {
			usable = append(usable, l)
		}
	}
	best := Detection{Lines: len(usable)}
	consider := func(f *Format, note string) {
		d := Detection{Format: f, Lines: len(usable)}
		if note != "" {
			d.Notes = []string{note}
		}
		p := f.NewParser()
		var r Record
		for _, l := range usable {
			if p.strict(l, &r) == NoFault && plausible(&r) {
				d.Fit++
			}
		}
		if d.Fit > best.Fit {
			best = d
		}
	}
	consider(JSON(opts), "")
	for _, c := range candidates {
		if best.Fit == len(usable) {
			break
		}
		f, err := c.compile(opts)
		if err != nil {
			return best, err
		}
		consider(f, c.note)
	}
	if best.Fit == 0 {
		return best, ErrNoFormat
	}
	// Judged by the lines that leave no choice; counted are all that fit.
	best.Fit = 0
	p := best.Format.NewParser()
	var r Record
	for _, l := range usable {
		if p.Parse(l, &r) == NoFault {
			best.Fit++
		}
	}
	best.Sure = sureness(best.Fit, best.Lines)
	if best.Format.json {
		best.Notes = jsonNotes(best.Format, usable)
	}
	return best, nil
}

func sureness(fit, lines int) Sureness {
	switch {
	case fit == lines && lines >= 3:
		return Certain
	case fit*20 >= lines*19 || fit == lines:
		return Likely
	case fit*5 >= lines*4:
		return Likely
	}
	return Guess
}

// plausible tells records that mean something: JSON of any program parses.
func plausible(r *Record) bool {
	return r.Has&(FieldClient|FieldForwarded) != 0 && r.Has&(FieldTime|FieldRequest|FieldStatus) != 0
}

// jsonNotes says what JSON lines lack, which their format cannot know.
func jsonNotes(f *Format, sample [][]byte) []string {
	p := f.NewParser()
	var r Record
	var has Fields
	for _, l := range sample {
		if p.Parse(l, &r) == NoFault {
			has |= r.Has
		}
	}
	if has.Has(FieldTime) && has.Has(FieldClient) {
		return nil
	}
	var lacks []string
	if !has.Has(FieldClient) {
		lacks = append(lacks, "a client address")
	}
	if !has.Has(FieldTime) {
		lacks = append(lacks, "a time")
	}
	return []string{"none of the keys known holds " + strings.Join(lacks, " or ")}
}

// splitSample cuts the head of a text into lines; the last, which may be cut,
// only if it is all there is.
func splitSample(head []byte, whole bool) [][]byte {
	var out [][]byte
	for len(out) < 2*maxDetectLines {
		n := bytes.IndexByte(head, '\n')
		if n < 0 {
			if whole && len(head) > 0 {
				out = append(out, bytes.TrimSuffix(head, []byte("\r")))
			}
			return out
		}
		out = append(out, bytes.TrimLeft(bytes.TrimSuffix(head[:n], []byte("\r")), "\x00"))
		head = head[n+1:]
	}
	return out
}

// String says what was found in a sentence's part.
func (d Detection) String() string {
	if d.Format == nil {
		return fmt.Sprintf("none of %d lines fits a known format", d.Lines)
	}
	return fmt.Sprintf("%s, %s: %d of %d lines fit", d.Format.Name(), d.Sure, d.Fit, d.Lines)
}
