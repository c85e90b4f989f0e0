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

// Replay folds a trace that was recorded as JSON lines. If the recording has
// its end, that is the result, with what was sampled after the events; else it
// is what the events tell. The error names the line that is none.
func Replay(r io.Reader) (*Result, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	var fold Fold
	events := 0
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var l Line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return nil, fmt.Errorf("trace: replaying line %d: %w", n, err)
		}
		switch {
		case l.Kind == ResultLine && l.Result != nil && l.Result.Schema == Schema:
			return l.Result, nil
		case l.Kind == "":
			return nil, fmt.Errorf("trace: replaying line %d: it is no event", n)
		case l.TTL < 0 || l.TTL > 255 || l.View < 0 || l.Round < 0:
			return nil, fmt.Errorf("trace: replaying line %d: TTL %d, view %d, round %d cannot be", n, l.TTL, l.View, l.Round)
		}
		events++
		fold.Add(l.Event)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("trace: replaying: %w", err)
	}
	if events == 0 {
		return nil, errors.New("trace: replaying: no events")
	}
	return fold.Result(), nil
}
