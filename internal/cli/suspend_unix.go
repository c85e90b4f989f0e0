//go:build unix

package cli

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// suspend returns a function that stops this process, and what runs with it in
// a pipeline, as Ctrl-Z does, and comes back when it is continued.
func suspend() func() {
	return func() {
		continued := make(chan os.Signal, 1)
		signal.Notify(continued, syscall.SIGCONT)
		defer signal.Stop(continued)
		if syscall.Kill(0, syscall.SIGTSTP) != nil {
			return
		}
		// Nothing stops where no shell could continue it: POSIX discards the
		// signal in an orphaned process group.
		unheard := time.NewTimer(500 * time.Millisecond)
		defer unheard.Stop()
		select {
		case <-continued:
		case <-unheard.C:
		}
	}
}
