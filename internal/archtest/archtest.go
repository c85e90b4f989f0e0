// Package archtest holds the tests that keep the architecture as docs/design.md
// draws it: imports go downwards only, libraries neither print nor exit, and
// the top of the repository stays small.
//
// It has no code of its own that a program could import.
package archtest
