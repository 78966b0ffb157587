package harness

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"unsafe"
)

// Disk is a file system of its own, ext4 in a file, whose power can be lost: what nobody has synced is gone then.
type Disk struct {
	// Dir is where it is mounted.
	Dir string

	image string
}

const (
	// ioctlShutdown is EXT4_IOC_SHUTDOWN, shutdownNoFlush its mode that writes nothing more, not even the journal (fs/ext4/ext4.h).
	ioctlShutdown   = 0x8004587d
	shutdownNoFlush = 2
)

// NewDisk makes and mounts a file system of so many bytes. The test is skipped without the right to do that.
func NewDisk(t testing.TB, sizeBytes int64) *Disk {
	t.Helper()
	NeedProcess(t)
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a file system, whose power is then lost")
	}
	dir := t.TempDir()
	d := &Disk{Dir: filepath.Join(dir, "disk"), image: filepath.Join(dir, "image")}
	if err := os.Mkdir(d.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(d.image)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(sizeBytes); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if err := command(Tool(t, "mkfs.ext4"), "-q", "-F", "-m", "0", d.image); err != nil {
		t.Fatal(err)
	}
	if err := d.mount(); err != nil {
		t.Skipf("a file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := command("umount", d.Dir); err != nil {
			t.Error(err)
		}
	})
	return d
}

func (d *Disk) mount() error { return command("mount", "-o", "loop", d.image, d.Dir) }

// LosePower ends a broker and, at the same moment, what its disk has in memory only. The disk is there again when it returns, the broker is not.
func LosePower(t testing.TB, b *Broker, d *Disk) {
	t.Helper()
	if err := losePower(b, d); err != nil {
		t.Error(err)
	}
}

func losePower(b *Broker, d *Disk) error {
	// It stands still before the disk does. A sync that the shutdown overtakes may return success: ext4 loses the end of a preallocated file without an error then.
	if err := b.Process().Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	if err := d.powerOff(); err != nil {
		return err
	}
	b.Kill9()
	return d.powerOn()
}

// powerOff loses what is not synced. From now on every write and sync fails.
func (d *Disk) powerOff() error {
	dir, err := os.Open(d.Dir)
	if err != nil {
		return err
	}
	defer dir.Close()
	mode := uint32(shutdownNoFlush)
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, dir.Fd(), ioctlShutdown, uintptr(unsafe.Pointer(&mode))); errno != 0 {
		return fmt.Errorf("shutdown of %s: %w", d.Dir, errno)
	}
	return nil
}

// powerOn mounts the disk again. Nothing may have a file open there.
func (d *Disk) powerOn() error {
	if err := command("umount", d.Dir); err != nil {
		return err
	}
	return d.mount()
}

// command runs a program; the error has what it printed.
func command(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}
