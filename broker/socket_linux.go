package broker

import (
	"net"
	"syscall"
	"unsafe"
)

// The states of a TCP socket, and where struct tcp_info has what is looked at; the kernel only adds to its end.
const (
	tcpEstablished       = 1
	tcpInfoBytes         = 60
	tcpInfoState         = 0
	tcpInfoLastAckMillis = 56
)

// socketState tells of a socket that is not read whether the peer has closed it or is gone, and since when the peer has acknowledged nothing. Of what is no TCP socket nothing is known.
func socketState(nc net.Conn) (closed bool, silentMillis uint64, ok bool) {
	tcp, isTCP := innermost(nc).(*net.TCPConn)
	if !isTCP {
		return false, 0, false
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return false, 0, false
	}
	var info [tcpInfoBytes]byte
	size := uint32(len(info))
	errno := syscall.Errno(0)
	err = raw.Control(func(fd uintptr) {
		_, _, errno = syscall.Syscall6(syscall.SYS_GETSOCKOPT, fd, syscall.IPPROTO_TCP, syscall.TCP_INFO, uintptr(unsafe.Pointer(&info[0])), uintptr(unsafe.Pointer(&size)), 0)
	})
	if err != nil || errno != 0 || size < tcpInfoBytes {
		return false, 0, false
	}
	lastAck := *(*uint32)(unsafe.Pointer(&info[tcpInfoLastAckMillis]))
	return info[tcpInfoState] != tcpEstablished, uint64(lastAck), true
}
