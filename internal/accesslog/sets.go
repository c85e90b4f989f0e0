package accesslog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Set is one log: the file being written and those it was rotated into,
// oldest first.
type Set struct {
	// Name of the log, without what rotation and compression add.
	Name    string
	Sources []Source
}

// compressions are the extensions that compressors add. They only tell which
// files belong together: what a file holds is told by its content.
var compressions = []string{".gz", ".bz2", ".zst", ".zstd", ".xz", ".lz4", ".Z"}

// Sets groups files into logs by their names, as logrotate, rotatelogs and
// cronolog make them: access.log.2.gz, access.log.1 and access.log are one,
// so are access.log-20261130 and access.2026-11-30.log. In each set the files
// are ordered by time as far as the names tell; [Reader] needs no more, but
// see [Order]. A file named twice, also by a link, is taken once; the
// duplicates are returned.
func Sets(paths []string) (sets []Set, duplicates []string, err error) {
	type file struct {
		path string
		age  rotation
	}
	var names []string
	files := map[string][]file{}
	var seen []os.FileInfo
	for _, path := range paths {
		fi, err := os.Stat(path)
		switch {
		case err != nil:
			return nil, nil, fmt.Errorf("accesslog: opening the log: %w", err)
		case fi.IsDir():
			return nil, nil, fmt.Errorf("accesslog: %s is a directory", path)
		}
		if slices.ContainsFunc(seen, func(s os.FileInfo) bool { return os.SameFile(s, fi) }) {
			duplicates = append(duplicates, path)
			continue
		}
		seen = append(seen, fi)
		base, age := rotated(path)
		if files[base] == nil {
			names = append(names, base)
		}
		files[base] = append(files[base], file{path, age})
	}
	for _, name := range names {
		slices.SortStableFunc(files[name], func(a, b file) int { return a.age.compare(b.age) })
		set := Set{Name: name}
		for _, f := range files[name] {
			set.Sources = append(set.Sources, File(f.path))
		}
		sets = append(sets, set)
	}
	return sets, duplicates, nil
}

// rotation is a file's age by its name: the current one is neither dated nor
// numbered. access.log-20261130.1 has both.
type rotation struct {
	date   string // digits only
	number int    // the greater the older
}

func (r rotation) compare(o rotation) int {
	switch {
	case r.date != o.date && r.date == "":
		return 1
	case r.date != o.date && o.date == "":
		return -1
	case r.date != o.date:
		return strings.Compare(r.date, o.date)
	}
	return o.number - r.number
}

// rotated takes a path apart into the log's name and the file's age.
func rotated(path string) (name string, age rotation) {
	dir, base := filepath.Split(path)
	for _, c := range compressions {
		if s, ok := strings.CutSuffix(base, c); ok && s != "" {
			base = s
			break
		}
	}
	if s, ok := strings.CutSuffix(base, ".old"); ok && s != "" {
		base, age.number = s, 1
	}
	if i := strings.LastIndexByte(base, '.'); i > 0 {
		if n, err := strconv.ParseUint(base[i+1:], 10, 16); err == nil && len(base[i+1:]) <= 4 {
			base, age.number = base[:i], int(n)+1
		}
	}
	base, age.date = cutDate(base)
	return dir + base, age
}

// cutDate takes out the first date with its separator: -20261130, .2026-11-30,
// _2026_11_30, also with hours behind it, or ten digits of seconds since 1970
// as rotatelogs writes them.
func cutDate(s string) (rest, date string) {
	for i := 1; i < len(s); i++ {
		if !strings.ContainsRune("-._", rune(s[i-1])) || s[i]-'0' > 9 || i == 1 {
			continue
		}
		end, found := i, ""
		for end < len(s) && (s[end]-'0' <= 9 || end > i && strings.IndexByte("-_:T", s[end]) >= 0 && end+1 < len(s) && s[end+1]-'0' <= 9) {
			if s[end]-'0' <= 9 {
				found += s[end : end+1]
			}
			end++
		}
		year := len(found) >= 8 && len(found) <= 14 && (found[:2] == "19" || found[:2] == "20") && found[4:6] <= "12" && found[6:8] <= "31"
		if year || len(found) == 10 && found[0] == '1' {
			return s[:i-1] + s[end:], found
		}
	}
	return s, ""
}

// Order sorts the sources of each set by the time of their first records,
// where all but empty ones have one, since names may lie; else they stay in
// the order of their names. What cannot be opened or read stays too: reading
// it will tell.
func Order(ctx context.Context, sets []Set, opts Options) error {
	for i := range sets {
		set := &sets[i]
		if len(set.Sources) < 2 {
			continue
		}
		type dated struct {
			s    Source
			when time.Time
		}
		var all []dated
		known := true
		for _, s := range set.Sources {
			when, empty, err := firstTime(ctx, s, opts)
			if ctx.Err() != nil {
				return fmt.Errorf("accesslog: ordering %s: %w", set.Name, ctx.Err())
			}
			if empty && err == nil {
				continue // adds nothing, wherever it stands
			}
			known = known && err == nil
			all = append(all, dated{s, when})
		}
		if !known {
			continue
		}
		slices.SortStableFunc(all, func(a, b dated) int { return a.when.Compare(b.when) })
		set.Sources = set.Sources[:0]
		for _, d := range all {
			set.Sources = append(set.Sources, d.s)
		}
	}
	return nil
}

var errNoTime = errors.New("no time")

// firstTime returns the time of a source's first record.
func firstTime(ctx context.Context, s Source, opts Options) (when time.Time, empty bool, err error) {
	if s.Live {
		return when, false, errNoTime
	}
	r := NewReader(ctx, opts, s)
	defer r.Close()
	var rec Record
	switch err := r.Next(&rec); {
	case errors.Is(err, io.EOF):
		return when, r.Stats().Lines == 0, errIf(r.Stats().Lines > 0, errNoTime)
	case err != nil:
		return when, false, err
	case !rec.Has.Has(FieldTime):
		return when, false, errNoTime
	}
	return rec.Time, false, nil
}

func errIf(bad bool, err error) error {
	if bad {
		return err
	}
	return nil
}
