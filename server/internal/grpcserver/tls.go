package grpcserver

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// TLSFiles say how connections are secured. The zero value is: not at all.
type TLSFiles struct {
	// Cert and Key are the server's certificate and its key, in PEM. They are read again when the files change.
	Cert, Key string
	// ClientCA is whose certificates clients must have. Default: none, clients need no certificate.
	ClientCA string
	// ClientName is a DNS name that a client's certificate must have. Default: none, any that ClientCA signed is good.
	ClientName string
}

// Config reads the files; it is nil if none are named.
func (f *TLSFiles) Config() (*tls.Config, error) {
	if f.Cert == "" && f.Key == "" {
		if f.ClientCA != "" || f.ClientName != "" {
			return nil, errors.New("clients can show a certificate only to a server that has one: give a certificate and a key too")
		}
		return nil, nil //nolint:nilnil // no TLS is what is asked for
	}
	if f.Cert == "" || f.Key == "" {
		return nil, errors.New("a certificate needs its key, and a key its certificate: give both")
	}
	if f.ClientName != "" && f.ClientCA == "" {
		return nil, errors.New("the name of a client can be trusted only where its certificate is: give a client CA too")
	}
	pair := &keyPair{files: *f}
	if _, err := pair.get(nil); err != nil {
		return nil, err
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: pair.get}
	if f.ClientCA == "" {
		return c, nil
	}
	pem, err := os.ReadFile(f.ClientCA)
	if err != nil {
		return nil, err
	}
	c.ClientCAs = x509.NewCertPool()
	if !c.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate in PEM", f.ClientCA)
	}
	c.ClientAuth = tls.RequireAndVerifyClientCert
	if name := f.ClientName; name != "" {
		c.VerifyConnection = func(s tls.ConnectionState) error { // also of sessions that are resumed
			return s.PeerCertificates[0].VerifyHostname(name)
		}
	}
	return c, nil
}

// keyPair is a certificate that is read again when its files change.
type keyPair struct {
	files TLSFiles

	mu      sync.Mutex
	cert    *tls.Certificate
	written [2]time.Time
}

// get returns the certificate as the files have it. Where they are not good any more, or not both written yet, it is the
// one before.
func (k *keyPair) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	written, err := writtenAt(k.files.Cert, k.files.Key)
	if err == nil && k.cert != nil && written == k.written {
		return k.cert, nil
	}
	if err == nil {
		var cert tls.Certificate
		if cert, err = tls.LoadX509KeyPair(k.files.Cert, k.files.Key); err == nil {
			k.cert, k.written = &cert, written
			return k.cert, nil
		}
	}
	if k.cert != nil {
		return k.cert, nil
	}
	return nil, err
}

func writtenAt(cert, key string) (at [2]time.Time, err error) {
	for i, name := range []string{cert, key} {
		info, err := os.Stat(name)
		if err != nil {
			return at, err
		}
		at[i] = info.ModTime()
	}
	return at, nil
}
