package process

import (
	"fmt"
	"os"

	"agentpod/native/internal/descriptor"

	"golang.org/x/sys/unix"
)

// stdio holds both ends of a payload's input and output until the fork; then it closes the child's ends.
type stdio struct {
	child          [3]*os.File
	input          *os.File
	output, errors *os.File
	terminal       *os.File
}

func openStdio(request Request) (*stdio, error) {
	if request.Terminal != nil {
		master, peer, err := openTerminal(*request.Terminal, request.User.UID)
		if err != nil {
			return nil, err
		}
		return openTerminalStdio(master, peer)
	}
	s := &stdio{}
	err := s.openPipes(request.Stdin)
	if err != nil {
		s.closeChild()
		s.closeParent()
		return nil, fmt.Errorf("open pipes: %w", err)
	}
	return s, nil
}

// openTerminalStdio gives input and output separate descriptors, so that each can be closed and given
// deadlines on its own.
func openTerminalStdio(master, peer *os.File) (*stdio, error) {
	var writer int
	err := descriptor.Control(master, func(fd int) (err error) {
		writer, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
		return err
	})
	if err != nil {
		master.Close()
		peer.Close()
		return nil, err
	}
	return &stdio{child: [3]*os.File{peer, peer, peer}, terminal: master, input: os.NewFile(uintptr(writer), "terminal")}, nil
}

func (s *stdio) openPipes(stdin bool) (err error) {
	if stdin {
		s.child[0], s.input, err = pipe(1)
	} else {
		s.child[0], err = os.OpenFile("/dev/null", os.O_RDONLY|unix.O_NOCTTY, 0)
	}
	if err != nil {
		return err
	}
	if s.output, s.child[1], err = pipe(0); err != nil {
		return err
	}
	s.errors, s.child[2], err = pipe(0)
	return err
}

// pipe makes one end, ours, non-blocking: it goes to the poller. The other end goes to a program that expects
// to block.
func pipe(ours int) (read, write *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, err
	}
	if err := unix.SetNonblock(fds[ours], true); err != nil {
		unix.Close(fds[0])
		unix.Close(fds[1])
		return nil, nil, err
	}
	return os.NewFile(uintptr(fds[0]), "pipe"), os.NewFile(uintptr(fds[1]), "pipe"), nil
}

func (s *stdio) childFDs() []uintptr {
	return []uintptr{s.child[0].Fd(), s.child[1].Fd(), s.child[2].Fd()}
}

func (s *stdio) pumps(journal *Journal) []*pump {
	if s.terminal != nil {
		return []*pump{newPump(Pty, s.terminal, journal)}
	}
	return []*pump{newPump(Stdout, s.output, journal), newPump(Stderr, s.errors, journal)}
}

func (s *stdio) closeChild() { closeAll(s.child[:]...) }

func (s *stdio) closeParent() { closeAll(s.input, s.output, s.errors, s.terminal) }

func closeAll(files ...*os.File) {
	for _, file := range files {
		if file != nil {
			file.Close() // a file that is listed several times is closed once; the rest report ErrClosed
		}
	}
}
