// Command whyslow says why a web response is slow: the network, DNS or the
// server.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/whyslow/whyslow/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first Ctrl-C ends the measurement, a second one the program.
	context.AfterFunc(ctx, stop)
	os.Exit(cli.Run(ctx, cli.Host(), os.Args[1:]))
}
