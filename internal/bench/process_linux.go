package main

import (
	"os"
	"os/exec"
	"syscall"
	"time"
)

// prepare makes a program end with this process, and with all that it starts,
// when it is killed: mtr probes by a second process.
func prepare(cmd *exec.Cmd, ordinary bool) {
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if ordinary {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: 0, NoSetGroups: true}
	}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

// used is the CPU time of a process that has ended, and of those it waited for.
func used(s *os.ProcessState) time.Duration {
	if s == nil {
		return 0
	}
	return s.UserTime() + s.SystemTime()
}
