package main

import (
	"path/filepath"
	"testing"
)

func TestMeasureLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	const lines, clients = 20000, 3001
	if err := writeLog(path, lines, clients); err != nil {
		t.Fatal(err)
	}
	f, err := measureLog(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if f.lines != lines || f.addresses != clients || !f.exact || f.bytes < lines*200 {
		t.Errorf("%+v", f)
	}
	if f.rate() <= 0 || f.perLine() <= 0 || f.counted <= 0 || f.memory <= 0 {
		t.Errorf("nothing measured: %+v", f)
	}
}
