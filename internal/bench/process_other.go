//go:build !linux

package main

import (
	"os"
	"os/exec"
)

// There is no lab on this platform, so no program is run: see netlab.

func prepare(*exec.Cmd, bool)     {}
func used(*os.ProcessState) usage { return usage{} }
