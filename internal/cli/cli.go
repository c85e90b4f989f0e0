// Package cli is the command line of whyslow: one file a subcommand, each a
// function that builds its cobra command around an options struct of its own.
//
// Opinions: no package state, so that a test can run any command twice; a
// wrong flag is refused before anything is measured; results go to Out,
// everything else to Err; an error says what failed, on what, why and what to
// do next. What comes from the network is escaped before a terminal sees it.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/whyslow/whyslow/internal/diagnose"
)

// Run runs one command line, without the program's name, and returns the exit
// status. It ends soon after ctx does: a measurement cut short is printed as
// far as it came, and the status is 130.
func Run(ctx context.Context, env Env, args []string) int {
	env = env.withDefaults(args)
	if args == nil {
		args = []string{} // nil would make cobra read os.Args
	}
	root := newRoot(&env)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	status := statusOf(err)
	if ctx.Err() != nil && err != nil {
		status = statusInterrupted
	}
	report(env.Err, cmd, status, err)
	return status
}

// report prints a command's error, if it has one to print.
func report(w io.Writer, cmd *cobra.Command, status int, err error) {
	if err == nil {
		return
	}
	if se, ok := errors.AsType[*statusError](err); ok && se.err == nil {
		return
	}
	fmt.Fprintf(w, "%s: %s\n", cmd.CommandPath(), clean(readable(err)))
	if status == statusUsage {
		fmt.Fprintf(w, "Try: %s --help\n", cmd.CommandPath())
	}
}

// newRoot builds the whole command tree for one run.
func newRoot(env *Env) *cobra.Command {
	var showVersion bool
	root := &cobra.Command{
		Use:   "whyslow",
		Short: "Says why a web response is slow: the network, DNS or the server",
		Long: `whyslow measures the path, the name resolution and the HTTP exchange of a web
address side by side, runs control experiments that tell the suspects apart, and
says which of them makes the response slow, with the evidence.`,
		Example: `  whyslow report https://www.example.com/         why is it slow?
  whyslow report www.example.com -o ticket.html   the same, for a ticket
  whyslow trace www.example.com                   which hop really delays
  whyslow demo                                    try it on a faulty network`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return unknownCommand(cmd, args[0])
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if showVersion {
				writeVersion(env)
				return nil
			}
			return cmd.Help()
		},
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.Flags().BoolVar(&showVersion, "version", false, "print the version and exit")
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetIn(env.In)
	root.SetOut(env.Out)
	root.SetErr(env.Err)
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { writeHelp(env.Out, cmd) })
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(newHelp(root))
	for i, build := range commands() {
		cmd := build(env)
		cmd.Annotations = map[string]string{helpOrder: fmt.Sprintf("%02d", i)}
		// A command's flags are listed in the order they were added: the
		// most useful first.
		cmd.Flags().SortFlags = false
		cmd.DisableFlagsInUseLine = true
		root.AddCommand(cmd)
	}
	return root
}

// commands lists the subcommands in the order help shows them.
func commands() []func(*Env) *cobra.Command {
	return []func(*Env) *cobra.Command{
		newReport,
		newTrace,
		newPMTU,
		newDNS,
		newLookups,
		newHTTP,
		newShow,
		newDemo,
		newDoctor,
		newVersion,
	}
}

// unknownCommand explains a first argument that is no command. The likeliest
// reason is a web address given without one.
func unknownCommand(root *cobra.Command, arg string) error {
	if strings.Contains(arg, ".") || strings.Contains(arg, "://") {
		return usagef("%s is no command; to diagnose it: whyslow report %s", quoted(arg), diagnose.Redacted(arg))
	}
	var names []string
	for _, sub := range root.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	if near := nearest(names, arg); near != "" {
		return usagef("%s is no command; did you mean %s?", quoted(arg), near)
	}
	return usagef("%s is no command", quoted(arg))
}
