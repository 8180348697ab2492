package process

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Size of a terminal in characters.
type Size struct {
	Cols uint16 `json:"cols,omitempty"`
	Rows uint16 `json:"rows,omitempty"`
}

// openTerminal makes a terminal that the user owns. The payload gets the peer, podd keeps the master.
func openTerminal(size Size, uid int) (master, peer *os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("open a terminal: %w", err)
	}
	master = os.NewFile(uintptr(fd), "terminal")
	defer func() {
		if err != nil {
			master.Close()
		}
	}()
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return nil, nil, fmt.Errorf("unlock the terminal: %w", err)
	}
	if peer, err = openPeer(fd); err != nil {
		return nil, nil, fmt.Errorf("open the terminal's peer: %w", err)
	}
	if err := resize(fd, size); err != nil {
		peer.Close()
		return nil, nil, err
	}
	// The owner may open it again by its name. The group, tty if devpts says so, may write to it.
	if err := unix.Fchown(int(peer.Fd()), uid, -1); err == nil {
		unix.Fchmod(int(peer.Fd()), 0o620)
	}
	return master, peer, nil
}

// openPeer asks the master for its peer, which works whatever is mounted on /dev/pts.
func openPeer(master int) (*os.File, error) {
	const flags = unix.O_RDWR | unix.O_NOCTTY | unix.O_CLOEXEC
	fd, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER, flags)
	if errno == 0 {
		return os.NewFile(fd, "terminal peer"), nil
	}
	number, err := unix.IoctlGetInt(master, unix.TIOCGPTN)
	if err != nil {
		return nil, err
	}
	name := "/dev/pts/" + strconv.Itoa(number)
	opened, err := unix.Open(name, flags, 0)
	return os.NewFile(uintptr(opened), name), err
}

func resize(fd int, size Size) error {
	if size.Cols == 0 || size.Rows == 0 {
		size = Size{Cols: 80, Rows: 24}
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: size.Cols, Row: size.Rows}); err != nil {
		return fmt.Errorf("resize the terminal: %w", err)
	}
	return nil
}
