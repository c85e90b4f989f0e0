package dnscheck

import (
	"errors"
	"fmt"
	"net/netip"
	"time"
)

const (
	defaultProbes = 5
	maxProbes     = 100
	defaultWait   = 2 * time.Second
	maxWait       = 30 * time.Second
)

// session is validated options with their defaults filled in.
type session struct {
	o      Options
	model  Model
	cfg    *Config
	ex     Exchanger
	port   uint16
	target target
}

func newSession(o Options) (*session, error) {
	t, err := parseTarget(o.Name)
	if err != nil {
		return nil, err
	}
	switch {
	case o.Family != Any && o.Family != IPv4 && o.Family != IPv6:
		return nil, fmt.Errorf("dnscheck: address family %d is neither 0, 4 nor 6", o.Family)
	case o.Probes < 0 || o.Probes > maxProbes:
		return nil, fmt.Errorf("dnscheck: %d probes a server: want 1 to %d", o.Probes, maxProbes)
	case o.Wait < 0 || o.Wait > maxWait:
		return nil, fmt.Errorf("dnscheck: waiting %v for an answer: want at most %v", o.Wait, maxWait)
	}
	if o.Probes == 0 {
		o.Probes = defaultProbes
	}
	model, err := o.Model.check()
	if err != nil {
		return nil, err
	}
	s := &session{o: o, model: model, cfg: o.Config, ex: o.Exchanger, port: o.Port, target: t}
	if s.cfg == nil {
		if s.cfg, err = LoadResolvConf(o.ResolvConf); err != nil {
			return nil, err
		}
	}
	if n := len(s.cfg.Nameservers); n == 0 || n > maxNameservers {
		return nil, errors.New("dnscheck: a configuration needs 1 to 3 nameservers")
	}
	s.cfg = s.cfg.As(model)
	if s.port == 0 {
		s.port = 53
	}
	if s.ex == nil {
		s.ex = &Host{Source: o.Source, Interface: o.Interface}
	}
	return s, nil
}

func (s *session) server(i int) netip.AddrPort {
	return netip.AddrPortFrom(s.cfg.Nameservers[i], s.port)
}
