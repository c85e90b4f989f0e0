package trace

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxLine bounds a recorded line, in bytes: a result of 64 hops is the largest.
const maxLine = 4 << 20

// Line is a line of a recorded trace: an event, or last of all the result.
type Line struct {
	Event
	Result *Result `json:"result,omitempty"`
}

// ResultLine is the Kind of the Line that holds the result.
const ResultLine EventKind = "result"

// Replay folds what was recorded as JSON lines, one trace or several. Where the
// recording has its end, that is the result, with what was sampled after the
// events; else it is what the events tell. A last line that was cut off, as a
// crash leaves it, is left out; the error names any other line that is no event.
func Replay(r io.Reader) ([]*Result, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	lines.Split(wholeLines)
	var traces []*recorded
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var l Line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			_, broken := errors.AsType[*json.SyntaxError](err)
			if broken && len(traces) > 0 && !bytes.HasSuffix(lines.Bytes(), []byte("\n")) {
				break
			}
			return nil, fmt.Errorf("trace: replaying line %d: %w", n, err)
		}
		switch {
		case l.Kind == "":
			return nil, fmt.Errorf("trace: replaying line %d: it is no event", n)
		case l.Trace < 0 || l.Trace > len(traces)+maxAtOnce || l.TTL < 0 || l.TTL > 255 || l.View < 0 || l.Round < 0:
			return nil, fmt.Errorf("trace: replaying line %d: trace %d, TTL %d, view %d, round %d cannot be", n, l.Trace, l.TTL, l.View, l.Round)
		}
		for len(traces) <= l.Trace {
			traces = append(traces, &recorded{})
		}
		traces[l.Trace].add(&l)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("trace: replaying: %w", err)
	}
	var results []*Result
	for _, t := range traces {
		if res := t.outcome(); res != nil {
			results = append(results, res)
		}
	}
	if results == nil {
		return nil, errors.New("trace: replaying: no events")
	}
	return results, nil
}

// wholeLines is bufio.ScanLines that leaves the end of a line on it.
func wholeLines(data []byte, atEOF bool) (advance int, line []byte, err error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i+1], nil
	}
	if atEOF && len(data) > 0 {
		return len(data), data, nil
	}
	return 0, nil, nil
}

// recorded is one trace of a recording.
type recorded struct {
	fold   Fold
	events int
	result *Result // with which it ended
}

func (r *recorded) add(l *Line) {
	if l.Kind != ResultLine {
		r.events++
		r.fold.Add(l.Event)
	} else if l.Result != nil && l.Result.Schema == Schema {
		r.result = l.Result
	}
}

func (r *recorded) outcome() *Result {
	if r.result == nil && r.events > 0 {
		return r.fold.Result()
	}
	return r.result
}
