package live

import (
	"fmt"

	"github.com/gdamore/tcell/v3"
	"github.com/gdamore/tcell/v3/color"
)

// asciiFor replaces what a terminal that is not UTF-8 cannot show.
var asciiFor = map[rune]string{
	'▁': "_", '▂': ".", '▃': ":", '▄': "-", '▅': "=", '▆': "+", '▇': "*", '█': "#",
	'▏': "|", '▎': "|", '▍': "|", '▌': "|", '▋': "#", '▊': "#", '▉': "#",
	'×': "x", '·': "-", '…': "~", '–': "-", '▸': ">", '↑': "^", '↓': "v", '⏎': "e", '→': ">", '−': "-",
}

// openScreen takes the terminal over.
func openScreen(opt Options) (tcell.Screen, error) {
	tty := opt.Terminal
	if tty == nil {
		var err error
		if tty, err = tcell.NewDevTty(); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNoTerminal, err)
		}
	}
	// Nothing is asked of the terminal: no answer that arrives late is taken
	// for keys, by us or by the shell after us, and a link with a second of
	// delay begins at once.
	options := []tcell.TerminfoScreenOption{tcell.OptNegotiation(false), tcell.OptKeyboardProtocol(tcell.LegacyKeyboard)}
	if !opt.Color {
		options = append(options, tcell.OptColors(0))
	}
	s, err := tcell.NewTerminfoScreenFromTty(tty, options...)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoTerminal, err)
	}
	if err := s.Init(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoTerminal, err)
	}
	for r, subst := range asciiFor {
		s.RegisterRuneFallback(r, subst)
	}
	return s, nil
}

// draw puts the view on the terminal.
func (l *loop) draw() {
	if l.stale {
		l.screen.Sync()
		l.stale = false
	}
	width, height := l.screen.Size()
	if width <= 0 || height <= 0 {
		return
	}
	styles := stylesFor(l.screen.Colors() > 0)
	l.screen.Clear()
	for y, line := range l.model.Draw(width, height) {
		x := 0
		for _, span := range line {
			// Each character is put where our own widths say: what the
			// library thinks of a width must not shift a column.
			characters(span.Text, func(char string, w int) bool {
				l.screen.Put(x, y, char, styles[span.Style])
				x += w
				return true
			})
		}
	}
	l.screen.Show()
}

// stylesFor maps styles to what the terminal has. The eight basic colours
// follow its theme, and so are readable on light and dark.
func stylesFor(colors bool) [Notice + 1]tcell.Style {
	var s [Notice + 1]tcell.Style
	paint := func(st tcell.Style, c color.Color) tcell.Style {
		if !colors {
			return st
		}
		return st.Foreground(c)
	}
	base := tcell.StyleDefault
	s[Plain], s[Bold], s[Dim] = base, base.Bold(true), base.Dim(true)
	s[Good] = paint(base, tcell.PaletteColor(2))
	s[Warn] = paint(base, tcell.PaletteColor(3))
	s[Bad] = paint(base.Bold(true), tcell.PaletteColor(1))
	s[Accent] = paint(base, tcell.PaletteColor(6))
	s[Chosen], s[Notice] = base.Reverse(true), base.Bold(true).Reverse(true)
	return s
}

// keyOf translates a key of the library.
func keyOf(ev *tcell.EventKey) Key {
	switch ev.Key() {
	case tcell.KeyRune:
		return Key(ev.Str())
	case tcell.KeyUp, tcell.KeyCtrlP:
		return KeyUp
	case tcell.KeyDown, tcell.KeyCtrlN:
		return KeyDown
	case tcell.KeyPgUp:
		return KeyPageUp
	case tcell.KeyPgDn:
		return KeyPageDown
	case tcell.KeyHome:
		return KeyHome
	case tcell.KeyEnd:
		return KeyEnd
	case tcell.KeyEnter:
		return KeyEnter
	case tcell.KeyEscape:
		return KeyEscape
	case tcell.KeyCtrlC:
		return KeyCtrlC
	case tcell.KeyCtrlL:
		return KeyCtrlL
	case tcell.KeyCtrlZ:
		return KeyCtrlZ
	}
	return ""
}
