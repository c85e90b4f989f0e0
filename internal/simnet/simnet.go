// Package simnet is an event-driven model of a routed network: hosts and
// routers joined by links that delay, jitter, lose, queue and limit.
//
// The model has no clock and no goroutines. Whoever drives it says what time
// it is: a test in virtual time, netlab in real time. Packets are real bytes:
// TTLs are decremented, checksums are right, and an ICMP error quotes what
// arrived.
package simnet
