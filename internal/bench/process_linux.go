package main

import (
	"os"
	"os/exec"
	"syscall"
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

func used(s *os.ProcessState) usage {
	if s == nil {
		return usage{}
	}
	u := usage{cpu: s.UserTime() + s.SystemTime()}
	if r, ok := s.SysUsage().(*syscall.Rusage); ok {
		u.rss = r.Maxrss << 10 // KiB on Linux
	}
	return u
}
