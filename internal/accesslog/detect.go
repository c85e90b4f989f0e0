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
	consider := func(f *Format, c candidate) {
		if fit := c.fit(f, usable); fit > best.Fit {
			best = Detection{Format: f, Lines: len(usable), Fit: fit}
			if c.note != "" {
				best.Notes = []string{c.note}
			}
		}
	}
	if f := declared(sample, opts); f != nil {
		consider(f, candidate{})
	}
	consider(JSON(opts), candidate{})
	for _, c := range candidates {
		if best.Fit == len(usable) {
			break
		}
		f, err := c.compile(opts)
		if err != nil {
			return best, err
		}
		consider(f, c)
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

// fit counts the lines that a candidate reads without a choice, or, behind a
// prefix of any kind, with an address where it belongs.
func (c candidate) fit(f *Format, sample [][]byte) int {
	n := 0
	p := f.NewParser()
	var r Record
	for _, l := range sample {
		if c.decimal && bytes.LastIndexByte(l, '.') < bytes.LastIndexByte(l, ' ') {
			continue
		}
		if c.prefix {
			if p.Parse(l, &r) == NoFault && r.Has.Has(FieldTime) {
				n++
			}
		} else if p.strict(l, &r) == NoFault && plausible(&r) {
			n++
		}
	}
	return n
}

// declared returns the format that the lines themselves declare, nil if none.
func declared(sample [][]byte, opts CompileOptions) *Format {
	for i, l := range sample {
		fields, ok := bytes.CutPrefix(l, []byte(w3cFields))
		if !ok {
			continue
		}
		separator := byte(' ')
		if i+1 < len(sample) && bytes.IndexByte(sample[i+1], '\t') >= 0 {
			separator = '\t'
		}
		if f, err := compileW3C(string(fields), separator, opts); err == nil {
			return f
		}
	}
	return nil
}

// plausible tells records that mean something: JSON of any program parses.
func plausible(r *Record) bool {
	return bytes.IndexByte(r.VHost, ',') < 0 && r.Has&(FieldClient|FieldForwarded) != 0 && r.Has&(FieldTime|FieldRequest|FieldStatus) != 0
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
