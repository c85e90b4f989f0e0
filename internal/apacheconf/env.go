package apacheconf

import "strings"

// ReadEnv reads assignments of a shell script such as Debian's envvars. Only
// X=value and export X=value with simple variables are understood; commands and
// tests are passed over, of several assignments the last counts.
func ReadEnv(text string) map[string]string {
	env := map[string]string{}
	if len(text) > maxFile {
		text = text[:maxFile]
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		line = strings.TrimSpace(strings.TrimPrefix(line, "export "))
		name, value, ok := strings.Cut(line, "=")
		if !ok || !isName(name) || len(line) > maxLine {
			continue
		}
		if v, ok := shellValue(value, env); ok {
			env[name] = v
		}
	}
	return env
}

// shellValue expands the first word of a value.
func shellValue(s string, env map[string]string) (string, bool) {
	var b strings.Builder
	quote := byte(0)
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case b.Len() > maxLine:
			return "", false
		case quote == 0 && (c == ' ' || c == '\t' || c == ';'):
			return b.String(), true
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		case c == '\\' && quote != '\'' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
		case c == '`' || strings.HasPrefix(s[i:], "$("):
			return "", false
		case c == '$' && quote != '\'':
			v, n, ok := shellVar(s[i:], env)
			if !ok {
				return "", false
			}
			b.WriteString(v)
			i += n - 1
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), quote == 0
}

// shellVar expands $X, ${X} and ${X:-default}, and says how long it is.
func shellVar(s string, env map[string]string) (string, int, bool) {
	if strings.HasPrefix(s, "${") {
		name, _, ok := strings.Cut(s[2:], "}")
		if !ok {
			return "", 0, false
		}
		n := len(name) + 3
		name, def, _ := strings.Cut(name, ":-")
		if !isName(name) {
			return "", 0, false
		}
		if v := env[name]; v != "" {
			return v, n, true
		}
		return def, n, true
	}
	n := 1
	for n < len(s) && isName(s[1:n+1]) {
		n++
	}
	if n == 1 {
		return "$", 1, true
	}
	return env[s[1:n]], n, true
}

func isName(s string) bool {
	for i, c := range s {
		if c != '_' && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}
