package render

import (
	"io"

	"github.com/whyslow/whyslow/reports"
)

// HTML writes the report as one self-contained file.
func HTML(w io.Writer, r *reports.Report, opt Options) error { return nil }

func singleHTML(w io.Writer, title, name string, p part, opt Options) error { return nil }
