package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/whyslow/whyslow/dnscheck"
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
		Long: `Reads the JSON that report, trace, pmtu, dns or http wrote and renders it again.
Nothing is measured and the verdict stays as it was. A "-" reads standard input.`,
		Example: `  whyslow show incident.json                       on the terminal
  whyslow show incident.json -v                    with every sample
  whyslow show incident.json -o incident.html      to attach to a ticket
  whyslow trace www.example.com --json | whyslow show - --format markdown`,
		Args: oneArg("file", "whyslow show incident.json"),
		RunE: func(_ *cobra.Command, args []string) error {
			return runShow(env, &c, args[0])
		},
	}
	c.addOutput(cmd.Flags())
	return cmd
}

// maxSaved bounds a saved result, in bytes. A deep report has a few MB.
const maxSaved = 16 << 20

func runShow(env *Env, c *common, path string) error {
	if err := c.check(); err != nil {
		return err
	}
	in, name := env.In, "standard input"
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return usagef("%w", err)
		}
		defer f.Close()
		in, name = f, path
	}
	b, err := io.ReadAll(io.LimitReader(in, maxSaved+1))
	if err != nil {
		return usagef("reading %s: %w", name, err)
	}
	if len(b) > maxSaved {
		return usagef("%s: larger than %d MB, so no report of whyslow", name, maxSaved>>20)
	}
	return showSaved(env, c, name, b)
}

// showSaved renders a saved result by its schema.
func showSaved(env *Env, c *common, name string, b []byte) error {
	var head struct {
		Schema string `json:"schema"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return usagef("%s: not JSON (%w); save a report with -o FILE.json", name, err)
	}
	switch head.Schema {
	case reports.Schema:
		rep, err := render.ReadReport(bytes.NewReader(b))
		if err != nil {
			return usagef("%s: %w", name, err)
		}
		return deliver(env, c, render.ReportForms(), rep)
	case trace.Schema:
		return redeliver(env, c, name, b, render.TraceForms())
	case pmtu.Schema:
		return redeliver(env, c, name, b, render.PMTUForms())
	case dnscheck.Schema:
		return redeliver(env, c, name, b, render.DNSForms())
	case httpcheck.Schema:
		return redeliver(env, c, name, b, render.HTTPForms())
	case "":
		return usagef("%s: has no \"schema\", so it is no report of whyslow", name)
	}
	return usagef("%s: schema %q is unknown to this version of whyslow; use a newer one", name, head.Schema)
}

func redeliver[T any](env *Env, c *common, name string, b []byte, forms render.Forms[T]) error {
	v := new(T)
	if err := json.Unmarshal(b, v); err != nil {
		return usagef("%s: %w", name, err)
	}
	return deliver(env, c, forms, v)
}
