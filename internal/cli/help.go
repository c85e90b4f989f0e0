package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// groupCommon marks the flags that every measuring command has; help lists
// them after the command's own.
const groupCommon = "whyslow-common"

// writeHelp shows a command: what it is for, examples to copy, then flags.
func writeHelp(w io.Writer, cmd *cobra.Command) {
	long := cmd.Long
	if long == "" {
		long = cmd.Short + "."
	}
	fmt.Fprintf(w, "%s\n\nUsage:\n  %s\n", long, usageLine(cmd))
	if cmd.Example != "" {
		fmt.Fprintf(w, "\nExamples:\n%s\n", cmd.Example)
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprint(w, "\nCommands:\n")
		subs := slices.Clone(cmd.Commands()) // which cobra sorts by name
		slices.SortStableFunc(subs, func(a, b *cobra.Command) int {
			return strings.Compare(a.Annotations[helpOrder], b.Annotations[helpOrder])
		})
		for _, sub := range subs {
			if sub.IsAvailableCommand() {
				fmt.Fprintf(w, "  %-9s %s\n", sub.Name(), sub.Short)
			}
		}
	}
	own, common := splitFlags(cmd)
	if own.HasAvailableFlags() {
		fmt.Fprintf(w, "\nFlags:\n%s", flagTable(own))
	}
	if common.HasAvailableFlags() {
		fmt.Fprintf(w, "\nCommon flags:\n%s", flagTable(common))
	}
	if !cmd.HasParent() {
		fmt.Fprint(w, `
Exit status: 0 measured, whatever the verdict; 1, 2, 3 with --fail-on only;
4 the target could not be measured; 64 usage error; 74 the result could not be
written (what -o cannot take is printed instead); 130 interrupted.
`)
	}
}

const helpWidth = 80

// helpOrder is the annotation that holds a command's place in the list.
const helpOrder = "whyslow-order"

func usageLine(cmd *cobra.Command) string {
	if !cmd.HasParent() {
		return cmd.Name() + " COMMAND [FLAGS] [ARGUMENTS]"
	}
	return cmd.UseLine()
}

// flagTable lists flags in two columns. pflag's own table spells out
// "[=true|false]" for every switch, which teaches nothing.
func flagTable(fs *pflag.FlagSet) string {
	const column = 30
	var b strings.Builder
	fs.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		kind, usage := pflag.UnquoteUsage(f)
		left := "      --" + f.Name
		if f.Shorthand != "" {
			left = "  -" + f.Shorthand + ", --" + f.Name
		}
		if kind != "" && f.Value.Type() != "bool" {
			left += " " + kind
		}
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "0" {
			usage += " (default " + f.DefValue + ")"
		}
		b.WriteString(left)
		at := len(left)
		if at > column-2 {
			b.WriteByte('\n')
			at = 0
		}
		for i, line := range wrap(usage, helpWidth-column) {
			if i > 0 {
				b.WriteByte('\n')
				at = 0
			}
			b.WriteString(strings.Repeat(" ", column-at) + line)
		}
		b.WriteByte('\n')
	})
	return b.String()
}

// wrap breaks a text into lines of at most width columns.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

// splitFlags parts a command's own flags from the common ones. --help is left
// out: who reads it has found it.
func splitFlags(cmd *cobra.Command) (own, common *pflag.FlagSet) {
	own = pflag.NewFlagSet("own", pflag.ContinueOnError)
	common = pflag.NewFlagSet("common", pflag.ContinueOnError)
	own.SortFlags, common.SortFlags = false, false
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		switch {
		case f.Name == "help":
		case f.Annotations[groupCommon] != nil:
			common.AddFlag(f)
		default:
			own.AddFlag(f)
		}
	})
	return own, common
}

// noArgs refuses arguments with a usage error.
func noArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s: this command takes no argument", quoted(args[0]))
	}
	return nil
}

// oneArg demands exactly one argument, called by name in the error.
func oneArg(name, example string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch len(args) {
		case 0:
			return usagef("no %s given; for example: %s", name, example)
		case 1:
			return nil
		}
		return usagef("%s: one %s at a time", quoted(args[1]), name)
	}
}

// someArgs wants from one up to most arguments.
func someArgs(name, example string, most int) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch n := len(args); {
		case n == 0:
			return usagef("no %s given; for example: %s", name, example)
		case n > most:
			return usagef("%d %ss given: at most %d at a time", n, name, most)
		}
		return nil
	}
}

// newHelp is "whyslow help [COMMAND]".
func newHelp(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:    "help [COMMAND]",
		Short:  "Help about a command",
		Hidden: true,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return root.Help()
			}
			cmd, _, err := root.Find(args[:1])
			if err != nil || cmd == root {
				return unknownCommand(root, args[0])
			}
			return cmd.Help()
		},
	}
}
