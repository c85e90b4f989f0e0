//go:build !linux

package main

import "github.com/whyslow/whyslow/internal/netlab"

func forge(*world, *netlab.Lab, int) (func(), error) { return nil, netlab.ErrUnsupported }
