package accesslog

import (
	"fmt"
	"strings"
	"time"
)

// CompileApache compiles a LogFormat of Apache httpd (mod_log_config), as it
// stands between the quotes of the directive or without them: \" is a quote.
func CompileApache(text string, opts CompileOptions) (*Format, error) {
	c, err := newCompiler(text, opts)
	if err != nil {
		return nil, err
	}
	c.f.escape = EscapeApache
	for i := 0; i < len(text); {
		switch text[i] {
		case '%':
			n, err := c.apacheDirective(text[i:])
			if err != nil {
				return nil, fmt.Errorf("%w, at byte %d of the log format", err, i+1)
			}
			i += n
		case '\\':
			i += c.apacheEscape(text[i:])
		default:
			c.pending.WriteByte(text[i])
			i++
		}
	}
	return c.finish()
}

// apacheEscape takes a backslash and what follows: first the configuration
// reader makes \" and \\ plain, then mod_log_config reads \n, \r, \t.
func (c *compiler) apacheEscape(s string) int {
	if len(s) > 1 {
		switch s[1] {
		case '"', '\\':
			c.pending.WriteByte(s[1])
			return 2
		case 't':
			c.pending.WriteByte('\t')
			return 2
		case 'n':
			c.pending.WriteByte('\n')
			return 2
		case 'r':
			c.pending.WriteByte('\r')
			return 2
		}
	}
	c.pending.WriteByte('\\')
	return 1
}

// apacheDirective takes one directive from "%" to its letter, and returns its
// length. Modifiers stand in any order: conditions on the status (!400,501),
// < and > for the original or the last request, {argument}.
func (c *compiler) apacheDirective(s string) (int, error) {
	arg, hasArg := "", false
	for i := 1; i < len(s); i++ {
		switch ch := s[i]; {
		case ch == '%' && i == 1:
			c.pending.WriteByte('%')
			return 2, nil
		case ch == '!' || ch == '<' || ch == '>' || ch == ',' || '0' <= ch && ch <= '9':
		case ch == '{':
			end := strings.IndexByte(s[i:], '}')
			if end < 0 {
				return 0, fmt.Errorf("accesslog: %.40q has no closing brace", s)
			}
			arg, hasArg = s[i+1:i+end], true
			i += end
		case ch == '^' && i+2 < len(s):
			letter := s[i : i+3]
			if letter != "^ti" && letter != "^to" && letter != "^FB" {
				return 0, fmt.Errorf("accesslog: %.40q is no directive of a LogFormat", s[:i+3])
			}
			return i + 3, c.add(step{kind: kindText, directive: s[:i+3]})
		default:
			st, err := c.apacheStep(ch, arg, hasArg)
			if err != nil {
				return 0, err
			}
			st.directive = s[:i+1]
			return i + 1, c.add(st)
		}
	}
	return 0, fmt.Errorf("accesslog: %.40q ends within a directive", s)
}

// apachePlain are the directives whose argument changes nothing.
var apachePlain = map[byte]kind{
	'A': kindToken, 'B': kindBytes, 'b': kindBytes, 'O': kindBytes, 'I': kindNumber, 'S': kindNumber,
	'C': kindText, 'c': kindText, 'e': kindText, 'f': kindText, 'H': kindProtocol, 'k': kindKeepAlive,
	'l': kindToken, 'L': kindToken, 'm': kindMethod, 'n': kindText, 'o': kindText, 'P': kindToken,
	'q': kindQuery, 'R': kindText, 'r': kindRequest, 's': kindStatus, 'U': kindPath, 'u': kindText, 'V': kindVHost,
	'v': kindVHost, 'X': kindConnStatus, 'x': kindText,
}

func (c *compiler) apacheStep(letter byte, arg string, hasArg bool) (step, error) {
	lower := strings.ToLower(arg)
	switch letter {
	case 'h', 'a':
		if lower == "c" {
			return step{kind: kindPeer}, nil
		}
		if letter == 'h' {
			return step{kind: kindHost}, nil
		}
		return step{kind: kindAddr}, nil
	case 'i':
		return step{kind: c.headerKind(lower)}, nil
	case 'p':
		if lower == "remote" {
			return step{kind: kindRemotePort}, nil
		}
		return step{kind: kindNumber}, nil
	case 'D':
		return step{kind: kindDuration, unit: time.Microsecond}, nil
	case 'T':
		switch lower {
		case "", "s":
			return step{kind: kindDuration, unit: time.Second}, nil
		case "ms":
			return step{kind: kindDuration, unit: time.Millisecond}, nil
		case "us":
			return step{kind: kindDuration, unit: time.Microsecond}, nil
		}
		return step{}, fmt.Errorf("accesslog: %%{%.20s}T has a unit other than ms, us and s", arg)
	case 't':
		return apacheTime(arg, hasArg)
	}
	k, ok := apachePlain[letter]
	if !ok {
		return step{}, fmt.Errorf("accesslog: %%%c is no directive of a LogFormat", letter)
	}
	return step{kind: k}, nil
}

// headerKind is what a request header's value means.
func (c *compiler) headerKind(lower string) kind {
	switch {
	case c.header == "" && lower == "x-forwarded-for", c.header != "" && lower == c.header:
		return kindForwarded
	case lower == "referer":
		return kindReferer
	case lower == "user-agent":
		return kindUserAgent
	}
	return kindText
}

// apacheTime compiles %t and %{format}t.
func apacheTime(arg string, hasArg bool) (step, error) {
	if !hasArg || arg == "" {
		return step{kind: kindBracketed}, nil
	}
	format := strings.TrimPrefix(strings.TrimPrefix(arg, "begin:"), "end:")
	switch format {
	case "": // the common form after all, brackets included
		return step{kind: kindBracketed}, nil
	case "sec":
		return step{kind: kindEpoch, unit: time.Second}, nil
	case "msec":
		return step{kind: kindEpoch, unit: time.Millisecond}, nil
	case "usec":
		return step{kind: kindEpoch, unit: time.Microsecond}, nil
	case "msec_frac":
		return step{kind: kindEpoch, unit: time.Millisecond, fraction: true}, nil
	case "usec_frac":
		return step{kind: kindEpoch, unit: time.Microsecond, fraction: true}, nil
	}
	layout, err := compileLayout(format)
	return step{kind: kindLayout, layout: layout}, err
}
