package cli

import "strings"

// The formats by the name that --format takes.
const (
	formatText     = "text"
	formatJSON     = "json"
	formatMarkdown = "markdown"
	formatHTML     = "html"
	formatLines    = "jsonl"
)

// format is a way to write a result, and the extensions of files that ask for
// it, the usual one first. One without extensions is for stdout alone.
type format struct {
	name       string
	extensions []string
}

// formats are those that every result has.
func formats() []format {
	return []format{
		{formatText, []string{"txt", "text"}},
		{formatJSON, []string{"json"}},
		{formatMarkdown, []string{"md", "markdown"}},
		{formatHTML, []string{"html", "htm"}},
	}
}

// traceFormats are those of a saved trace.
func traceFormats() []format {
	return append(formats(), format{"csv", []string{"csv"}}, format{"mtr", []string{"mtr"}}, format{"dot", []string{"dot", "gv"}})
}

func formatNames(list []format) []string {
	var names []string
	for _, f := range list {
		names = append(names, f.name)
	}
	return names
}

// extensions lists the usual extension of each format that has one.
func extensions(list []format) []string {
	var exts []string
	for _, f := range list {
		if len(f.extensions) > 0 {
			exts = append(exts, "."+f.extensions[0])
		}
	}
	return exts
}

// alternatives writes a list as people do: a, b or c.
func alternatives(list []string) string {
	last := len(list) - 1
	return strings.Join(list[:last], ", ") + " or " + list[last]
}
