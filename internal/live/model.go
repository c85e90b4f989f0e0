package live

import (
	"net/netip"
	"slices"
	"time"

	"github.com/whyslow/whyslow/internal/millis"
	"github.com/whyslow/whyslow/internal/stats"
	"github.com/whyslow/whyslow/trace"
)

// maxWarnings bounds what is kept of things that can happen again and again.
const maxWarnings = 20

// Model is the view: what the events so far look like. It has no clock and no
// terminal. Not safe for concurrent use.
type Model struct {
	opt    Options
	fold   *trace.Fold
	latest time.Time // of the events
	begins []trace.Event
	// known is what was found out about an address: Named, Origin.
	known  map[netip.Addr][2]trace.Event
	warned []trace.Event
	trails []*trail // one a method
	amend  []func(*trace.Result)
	read   func(*trace.Result) []trace.Sentence
	// before is the path when the counts were reset, until it is seen anew.
	before []trace.Hop

	paused   bool
	numeric  bool // addresses instead of names
	selected int  // TTL; 0 is none
	panel    panel
	columns  int // which set
	scroll   int // lines by which the panel is scrolled
	// shown is what the last drawing showed, which keys refer to.
	shown *trace.Result
}

// panel is what is shown below the table.
type panel uint8

const (
	reading panel = iota
	details
	flows
	help
)

// NewModel returns an empty view.
func NewModel(opt Options) *Model {
	return &Model{opt: opt, fold: &trace.Fold{}, read: trace.Read, known: make(map[netip.Addr][2]trace.Event), numeric: opt.NoNames}
}

// Add takes the next event.
func (m *Model) Add(ev trace.Event) {
	if ev.At.After(m.latest) {
		m.latest = ev.At
	}
	switch ev.Kind {
	case trace.Begin:
		m.begins = append(m.begins, ev)
		m.trails = append(m.trails, &trail{method: ev.Method})
	case trace.Sent, trace.Replied, trace.Counted:
		if ev.View < 0 || ev.View >= len(m.trails) {
			return
		}
		m.trails[ev.View].add(ev)
	case trace.Named, trace.Origin:
		k := m.known[ev.Addr]
		if ev.Kind == trace.Named {
			k[0] = ev
		} else {
			k[1] = ev
		}
		m.known[ev.Addr] = k
	case trace.Warned:
		same := func(w trace.Event) bool { return w.Text == ev.Text }
		if len(m.warned) >= maxWarnings || slices.ContainsFunc(m.warned, same) {
			return
		}
		m.warned = append(m.warned, ev)
	}
	m.fold.Add(ev)
}

// Amend applies a change to every result from now on.
func (m *Model) Amend(change func(*trace.Result)) { m.amend = append(m.amend, change) }

// best is the trail of the method that a result shows, nil if there is none.
func (m *Model) best(res *trace.Result) *trail {
	for _, t := range m.trails {
		if t.method == res.Method {
			return t
		}
	}
	return nil
}

// Result is what was measured so far.
func (m *Model) Result() *trace.Result {
	res := m.result()
	for i := range res.Hops {
		res.Hops[i].Direct = nil // see sampled
	}
	return res
}

func (m *Model) result() *trace.Result {
	res := m.fold.Result()
	if !res.Target.Addr.IsValid() {
		res.Target = m.opt.Target
	}
	if len(m.begins) > 0 { // a reset does not turn the clock back
		res.Elapsed = millis.Of(m.latest.Sub(m.begins[0].At))
	}
	sampled(res)
	for _, change := range m.amend {
		change(res)
	}
	res.Reading = m.read(res)
	return res
}

// sampled takes the expiring probes of each hop for the direct sample that a
// view which goes on for minutes does not take: a router that answers all of
// hundreds of them shows that nothing is lost before it. Echoes and handshakes
// reach the destination as such; the errors of a closed UDP port are limited
// and tell nothing of its loss.
func sampled(res *trace.Result) {
	for i := range res.Hops {
		h := &res.Hops[i]
		if len(h.Replies) == 0 || h.Sent == 0 {
			continue
		}
		r := &h.Replies[0]
		s := &trace.Sampled{Sent: h.Sent, Received: h.Received, Loss: h.Loss, Method: res.Method,
			Min: r.Min, Median: r.Median, P95: r.P95, Max: r.Max}
		if o := h.Overall; o != nil {
			s.Min, s.Median, s.P95, s.Max = o.Min, o.Median, o.P95, o.Max
		}
		s.LossLow, s.LossHigh = stats.Wilson(s.Sent-s.Received, s.Sent, stats.Z95)
		switch {
		case res.HopCount == nil || h.TTL != *res.HopCount:
			h.Direct = s
		case res.Method != "udp":
			res.Destination = s
		}
	}
}

// reset begins to count anew. The path stays on the screen.
func (m *Model) reset() {
	m.before = nil
	for _, h := range m.fold.Result().Hops {
		blank := trace.Hop{TTL: h.TTL, Replies: []trace.Replier{}}
		for _, r := range h.Replies {
			blank.Replies = append(blank.Replies, trace.Replier{Addr: r.Addr, Name: r.Name, AS: r.AS})
		}
		m.before = append(m.before, blank)
	}
	for _, t := range m.trails {
		t.reset()
	}
	m.fold = &trace.Fold{}
	for _, events := range [][]trace.Event{m.begins, m.warned} {
		for _, ev := range events {
			m.fold.Add(ev)
		}
	}
	for _, k := range m.known {
		for _, ev := range k {
			if ev.Kind != "" {
				m.fold.Add(ev)
			}
		}
	}
}

// remember shows the hops that were known before a reset where they have not
// been seen anew.
func (m *Model) remember(res *trace.Result) {
	missing := false
	for _, h := range m.before {
		if res.HopCount != nil && h.TTL > *res.HopCount {
			break // the path has become shorter
		}
		if !slices.ContainsFunc(res.Hops, func(have trace.Hop) bool { return have.TTL == h.TTL }) {
			res.Hops, missing = append(res.Hops, h), true
		}
	}
	if !missing {
		m.before = nil
		return
	}
	slices.SortFunc(res.Hops, func(a, b trace.Hop) int { return a.TTL - b.TTL })
}

// Key is a key as the view knows it: a character, or one of the names below.
type Key string

// The keys that are no characters.
const (
	KeyUp       Key = "up"
	KeyDown     Key = "down"
	KeyPageUp   Key = "pgup"
	KeyPageDown Key = "pgdn"
	KeyHome     Key = "home"
	KeyEnd      Key = "end"
	KeyEnter    Key = "enter"
	KeyEscape   Key = "esc"
	KeyCtrlC    Key = "ctrl-c"
	KeyCtrlL    Key = "ctrl-l"
	KeyCtrlZ    Key = "ctrl-z"
)

// Action is what a key asks of whoever drives the view.
type Action uint8

// The actions.
const (
	Nothing Action = iota
	Changed        // to draw again
	Redraw         // to draw everything again
	Pause          // to hold the trace, or let it go on
	Suspend        // to stop the process
	Quit
)

// Key takes a key.
func (m *Model) Key(k Key) Action {
	switch k {
	case "q", KeyCtrlC:
		return Quit
	case KeyCtrlL:
		return Redraw
	case KeyCtrlZ:
		return Suspend
	case "p", " ":
		m.paused = !m.paused
		return Pause
	case "r":
		m.reset()
	case "n":
		m.numeric = !m.numeric
	case "c":
		m.columns = (m.columns + 1) % len(columnSets)
	case "d", KeyEnter:
		m.toggle(details)
		if m.panel == details && m.selected == 0 {
			m.selectAt(KeyEnd)
		}
	case "f":
		m.toggle(flows)
	case "?", "h":
		m.toggle(help)
	case KeyEscape:
		m.escape()
	default:
		return m.move(k)
	}
	return Changed
}

func (m *Model) toggle(p panel) {
	m.scroll = 0
	if m.panel == p {
		p = reading
	}
	m.panel = p
}

// escape closes what is open, then gives up the selection.
func (m *Model) escape() {
	if m.panel == reading {
		m.selected = 0
	}
	m.panel, m.scroll = reading, 0
}

// move takes the keys that select a hop or scroll.
func (m *Model) move(k Key) Action {
	switch k {
	case "k":
		k = KeyUp
	case "j":
		k = KeyDown
	case "g":
		k = KeyHome
	case "G":
		k = KeyEnd
	}
	switch k {
	case KeyUp, KeyDown, KeyHome, KeyEnd:
		m.selectAt(k)
	case KeyPageDown:
		m.scroll += 5
	case KeyPageUp:
		m.scroll = max(m.scroll-5, 0)
	default:
		return Nothing
	}
	return Changed
}

// selectAt moves the selection among the hops that are shown.
func (m *Model) selectAt(k Key) {
	if m.shown == nil || len(m.shown.Hops) == 0 {
		return
	}
	hops := m.shown.Hops
	at := slices.IndexFunc(hops, func(h trace.Hop) bool { return h.TTL == m.selected })
	switch {
	case k == KeyHome, at < 0 && k == KeyDown:
		at = 0
	case k == KeyEnd, at < 0 && k == KeyUp:
		at = len(hops) - 1
	case k == KeyUp:
		at = max(at-1, 0)
	default:
		at = min(at+1, len(hops)-1)
	}
	m.selected, m.scroll = hops[at].TTL, 0
}
