package apacheconf

import (
	"strconv"
	"strings"
)

// ifVersion says whether an <IfVersion> holds; unknown are regular expressions.
func ifVersion(args []string, version string) (holds, known bool) {
	op := "="
	if len(args) == 2 {
		op, args = args[0], args[1:]
	}
	if len(args) != 1 {
		return true, false
	}
	op, not := strings.CutPrefix(op, "!")
	c, ok := compareVersions(version, args[0])
	if !ok {
		return true, false
	}
	switch op {
	case "=", "==", "":
		holds = c == 0
	case ">":
		holds = c > 0
	case ">=":
		holds = c >= 0
	case "<":
		holds = c < 0
	case "<=":
		holds = c <= 0
	default:
		return true, false
	}
	return holds != not, true
}

// compareVersions compares major, minor and patch; what b leaves out is 0.
func compareVersions(a, b string) (int, bool) {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range 3 {
		var n [2]int
		for j, s := range [][]string{as, bs} {
			if i >= len(s) {
				continue
			}
			v, err := strconv.Atoi(s[i])
			if err != nil {
				return 0, false
			}
			n[j] = v
		}
		if n[0] != n[1] {
			return n[0] - n[1], true
		}
	}
	return 0, true
}
