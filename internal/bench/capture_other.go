//go:build !linux

package main

import (
	"time"

	"github.com/whyslow/whyslow/internal/netlab"
)

type capture struct{}

type captured struct {
	at       time.Time
	outgoing bool
	data     []byte
}

func openCapture(string) (*capture, error)     { return nil, netlab.ErrUnsupported }
func (*capture) wait(time.Duration)            {}
func (*capture) next() (captured, bool, error) { return captured{}, false, netlab.ErrUnsupported }
func (*capture) close()                        {}
