package tlsconf

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warrenmq/warren/config/limits"
)

// Options say where a certificate stands and what is asked of the other end.
type Options struct {
	// CertFile has the certificate and those between it and its authority, KeyFile its key, CAFile the authorities that the other end's certificate is verified against; all in PEM.
	CertFile, KeyFile, CAFile string
	// Password opens an encrypted key.
	Password string
	// VerifyPeer asks clients for a certificate and verifies the one that comes; RequirePeer refuses clients without one.
	VerifyPeer, RequirePeer bool
	// DepthMax is how many certificates may stand between a client's and an authority's.
	DepthMax int
	// Versions are the versions of TLS by the number of their key; all that are safe if empty.
	Versions map[string]uint16
}

// Error says which file cannot be used.
type Error struct {
	// What the file holds, and its Path.
	What, Path string
	// Err is what is wrong.
	Err error
}

// Error names the file and what is wrong with it.
func (e *Error) Error() string { return fmt.Sprintf("%s %s: %v", e.What, e.Path, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Store has the configuration made of a set of files. Its methods may be called from several goroutines.
type Store struct {
	opt       Options
	protocols []string
	log       *slog.Logger
	present   atomic.Pointer[state]

	mu     sync.Mutex
	stamps stamps // of what was read last, whether it could be used or not
}

// state is one configuration with the certificates that it is made of.
type state struct {
	config             *tls.Config
	certs, authorities []*x509.Certificate
}

// stamp is how a file looks from outside.
type stamp struct {
	modified time.Time
	size     int64
}

type stamps [3]stamp

// Open reads the files; protocols are the names of ALPN that the listener speaks. An error is an *Error.
func Open(opt Options, log *slog.Logger, protocols ...string) (*Store, error) {
	s := &Store{opt: opt, log: log, protocols: protocols, stamps: look(&opt)}
	st, err := s.read()
	if err != nil {
		return nil, err
	}
	s.present.Store(st)
	return s, nil
}

// Options returns what the Store was opened with.
func (s *Store) Options() Options { return s.opt }

// Config returns the present configuration. It is never changed.
func (s *Store) Config() *tls.Config { return s.present.Load().config }

// Certificates returns the listener's present chain, its own certificate first, and the authorities for clients.
func (s *Store) Certificates() (chain, authorities []*x509.Certificate) {
	st := s.present.Load()
	return st.certs, st.authorities
}

// Refresh reads the files anew if they look changed since they were read last, or in any case if forced. Files that cannot be used change nothing.
func (s *Store) Refresh(forced bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := look(&s.opt)
	if now == s.stamps && !forced {
		return
	}
	s.stamps = now
	st, err := s.read()
	if err != nil {
		s.log.Error("new TLS certificates cannot be used; the ones before stay in force", "certificate", s.opt.CertFile, "error", err)
		return
	}
	s.present.Store(st)
	s.log.Info("TLS certificates were read anew", "certificate", s.opt.CertFile, "subject", Subject(st.certs[0]), "until", st.certs[0].NotAfter.UTC().Format(time.RFC3339))
}

func look(opt *Options) (all stamps) {
	for i, path := range [...]string{opt.CertFile, opt.KeyFile, opt.CAFile} {
		if info, err := os.Stat(path); path != "" && err == nil {
			all[i] = stamp{info.ModTime(), info.Size()}
		}
	}
	return all
}

// read makes a configuration of the files.
func (s *Store) read() (*state, error) {
	opt := &s.opt
	certPEM, err := readPEM("the certificate", opt.CertFile)
	if err != nil {
		return nil, err
	}
	certs, err := parseCertificates(certPEM)
	if err != nil {
		return nil, &Error{"the certificate", opt.CertFile, err}
	}
	keyPEM, err := readPEM("the key", opt.KeyFile)
	if err != nil {
		return nil, err
	}
	if keyPEM, err = decryptKey(keyPEM, opt.Password); err != nil {
		return nil, &Error{"the key", opt.KeyFile, err}
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, &Error{"the key", opt.KeyFile, err}
	}
	st := &state{certs: certs}
	if opt.CAFile != "" {
		caPEM, err := readPEM("the authorities", opt.CAFile)
		if err == nil {
			if st.authorities, err = parseCertificates(caPEM); err != nil {
				err = &Error{"the authorities", opt.CAFile, err}
			}
		}
		if err != nil {
			return nil, err
		}
	}
	st.config = s.configure(pair, st.authorities)
	return st, nil
}

func (s *Store) configure(pair tls.Certificate, authorities []*x509.Certificate) *tls.Config {
	c := &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: s.protocols, MinVersion: tls.VersionTLS12}
	if len(s.opt.Versions) > 0 {
		c.MinVersion = tls.VersionTLS13
		for _, v := range s.opt.Versions {
			c.MinVersion, c.MaxVersion = min(c.MinVersion, v), max(c.MaxVersion, v)
		}
	}
	if !s.opt.VerifyPeer {
		return c
	}
	// A resumed session would be as good as the handshake before it, with authorities and a clock of then.
	c.SessionTicketsDisabled = true
	c.ClientAuth = tls.VerifyClientCertIfGiven
	if s.opt.RequirePeer {
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
	c.ClientCAs = x509.NewCertPool()
	for _, a := range authorities {
		c.ClientCAs.AddCert(a)
	}
	c.RootCAs = c.ClientCAs // between nodes, both ends have the same configuration
	between := s.opt.DepthMax
	c.VerifyConnection = func(cs tls.ConnectionState) error {
		if len(cs.PeerCertificates) == 0 {
			return nil
		}
		for _, chain := range cs.VerifiedChains {
			if len(chain)-2 <= between {
				return nil
			}
		}
		return errors.New("tls: the chain of the client's certificate is longer than ssl_options.depth allows")
	}
	return c
}

// readPEM reads a file of at most limits.CertificateFileBytesMax.
func readPEM(what, path string) ([]byte, error) {
	f, err := os.Open(path)
	if err == nil {
		defer f.Close()
		var text []byte
		text, err = io.ReadAll(io.LimitReader(f, limits.CertificateFileBytesMax+1))
		if err == nil && len(text) > limits.CertificateFileBytesMax {
			err = errors.New("the file is too large for certificates")
		}
		if err == nil {
			return text, nil
		}
	}
	var inner *fs.PathError
	if errors.As(err, &inner) {
		err = inner.Err
	}
	return nil, &Error{what, path, err}
}

func parseCertificates(text []byte) ([]*x509.Certificate, error) {
	var list []*x509.Certificate
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	if len(list) == 0 {
		return nil, errors.New("there is no certificate in PEM in it")
	}
	return list, nil
}
