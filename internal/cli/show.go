package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/whyslow/whyslow/dnscheck"
	"github.com/whyslow/whyslow/dnscheck/lookups"
	"github.com/whyslow/whyslow/httpcheck"
	"github.com/whyslow/whyslow/pmtu"
	"github.com/whyslow/whyslow/reports"
	"github.com/whyslow/whyslow/reports/render"
	"github.com/whyslow/whyslow/trace"
)

func newShow(env *Env) *cobra.Command {
	var c common
	cmd := &cobra.Command{
		Use:   "show FILE [FLAGS]",
		Short: "Render a saved report again, in any format",
		Long: `Reads the JSON that report, trace, pmtu, dns or http wrote, or the JSON lines of
a trace (--format jsonl, finished or not), and renders it again.
Nothing is measured and the verdict stays as it was. A "-" reads standard input.`,
		Example: `  whyslow show incident.json                       on the terminal
  whyslow show incident.json -v                    with every sample
  whyslow show incident.json -o incident.html      to attach to a ticket
  whyslow trace www.example.com --json | whyslow show - --format markdown`,
		Args: oneArg("file", "whyslow show incident.json"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runShow(cmd.Context(), env, &c, args[0])
		},
	}
	c.formats = traceFormats()
	c.addOutput(cmd.Flags())
	return cmd
}

// maxSaved bounds a saved result, in bytes. A deep report has a few MB.
const maxSaved = 16 << 20

func runShow(ctx context.Context, env *Env, c *common, path string) error {
	if err := c.check(); err != nil {
		return err
	}
	elsewhere := *env
	elsewhere.Hostname = "" // who measured, nobody wrote down
	env = &elsewhere
	name := path
	if path == "-" {
		name = "standard input"
	}
	type content struct {
		b   []byte
		err error
	}
	// Without grace: a terminal or a pipe that says nothing more is not waited
	// for.
	read, ok := awaitFor(ctx, 0, func(context.Context) content {
		b, err := readSaved(env, path, name)
		return content{b, err}
	})
	if !ok {
		return &statusError{statusInterrupted, fmt.Errorf("%s: interrupted while reading", name)}
	}
	if odd, ok := errors.AsType[*irregular](read.err); ok && odd.what == aPipe {
		return usagef("%w; to read from it: whyslow show - < %s", odd, name)
	}
	if read.err != nil {
		return usagef("%w", read.err)
	}
	return showSaved(env, c, name, read.b)
}

func readSaved(env *Env, path, name string) ([]byte, error) {
	if path == "-" {
		return readAll(env.In, name, maxSaved)
	}
	return readBounded(path, maxSaved)
}

// showSaved renders a saved result by its schema.
func showSaved(env *Env, c *common, name string, b []byte) error {
	if results, err := recordedTraces(name, b); err != nil || results != nil {
		if err != nil {
			return err
		}
		return showTraces(env, c, results)
	}
	schema, err := schemaOf(name, b)
	if err != nil {
		return err
	}
	switch schema {
	case reports.Schema:
		rep, err := render.ReadReport(bytes.NewReader(b))
		if err != nil {
			return usagef("%s: %w", name, err)
		}
		return deliver(env, c, render.ReportForms(), rep)
	case trace.Schema:
		return redeliver(env, c, name, b, schema, render.TraceForms())
	case pmtu.Schema:
		return redeliver(env, c, name, b, schema, render.PMTUForms())
	case dnscheck.Schema:
		return redeliver(env, c, name, b, schema, render.DNSForms())
	case lookups.Schema:
		return redeliver(env, c, name, b, schema, render.LookupsForms())
	case httpcheck.Schema:
		return redeliver(env, c, name, b, schema, render.HTTPForms())
	case doctorSchema:
		return usagef("%s: is what doctor --json wrote, which show does not render; whyslow doctor shows this host's as text", name)
	}
	return usagef("%s: schema %q is unknown to this version of whyslow; use a newer one", name, clip(schema, 60))
}

// recordedTraces returns the traces that were saved as JSON lines, or one after
// the other as those of several hosts are; nil if b is neither. Each has passed
// what any saved result must.
func recordedTraces(name string, b []byte) ([]*trace.Result, error) {
	if results, err := severalTraces(name, b); results != nil || err != nil {
		return results, err
	}
	first, _, _ := bytes.Cut(bytes.TrimSpace(b), []byte("\n"))
	var head struct {
		Event trace.EventKind `json:"event"`
	}
	if json.Unmarshal(first, &head) != nil || head.Event == "" {
		return nil, nil
	}
	results, err := trace.Replay(bytes.NewReader(b))
	if err != nil {
		return nil, usagef("%s: %w", name, err)
	}
	for i, res := range results {
		saved, err := json.Marshal(res)
		if err == nil {
			results[i], err = render.ReadResult[trace.Result](bytes.NewReader(saved), trace.Schema)
		}
		if err != nil {
			return nil, usagef("%s: %w", name, err)
		}
	}
	return results, nil
}

// severalTraces reads the objects that a trace of several hosts wrote, nil if b
// is one object or none.
func severalTraces(name string, b []byte) ([]*trace.Result, error) {
	var results []*trace.Result
	for d := json.NewDecoder(bytes.NewReader(b)); ; {
		var raw json.RawMessage
		var head struct {
			Schema string `json:"schema"`
		}
		err := d.Decode(&raw)
		if errors.Is(err, io.EOF) && len(results) > 1 {
			return results, nil
		}
		if err != nil || json.Unmarshal(raw, &head) != nil || head.Schema != trace.Schema {
			return nil, nil // whoever reads it otherwise says what is wrong
		}
		res, err := render.ReadResult[trace.Result](bytes.NewReader(raw), trace.Schema)
		if err != nil {
			return nil, usagef("%s: object %d: %w", name, len(results)+1, err)
		}
		results = append(results, res)
	}
}

// showTraces renders what was recorded.
func showTraces(env *Env, c *common, results []*trace.Result) error {
	if len(results) == 1 {
		return deliver(env, c, render.TraceForms(), results[0])
	}
	if err := checkSeveral(c); err != nil {
		return err
	}
	return deliver(env, c, render.TraceGroupForms(), &results)
}

// schemaOf returns what a saved file says it is.
func schemaOf(name string, b []byte) (string, error) {
	if !json.Valid(b) {
		var any json.RawMessage
		return "", usagef("%s: not JSON (%w); save a report with -o FILE.json", name, json.Unmarshal(b, &any))
	}
	var head struct {
		Schema *string                           `json:"schema"`
		Report *struct{ Schema json.RawMessage } `json:"report"`
	}
	err := json.Unmarshal(b, &head)
	switch {
	case err == nil && head.Schema != nil && *head.Schema != "":
		return *head.Schema, nil
	case err == nil && head.Report != nil && head.Report.Schema != nil:
		return "", usagef("%s: is what demo --json wrote; its \"report\" alone can be shown", name)
	}
	return "", usagef("%s is no saved report: a JSON object with a \"schema\" is wanted; save a report with -o FILE.json", name)
}

func redeliver[T any](env *Env, c *common, name string, b []byte, schema string, forms render.Forms[T]) error {
	v, err := render.ReadResult[T](bytes.NewReader(b), schema)
	if err != nil {
		return usagef("%s: %w", name, err)
	}
	return deliver(env, c, forms, v)
}
