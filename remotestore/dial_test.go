package remotestore

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/remotestore/storeservice"
)

func newService(t *testing.T) *storeservice.Service {
	t.Helper()
	s, err := storeservice.New(&storeservice.Config{Store: memory(t, nil), Token: secret})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	serveListener(t, l, newService(t))
	if d := mustTake(t, open(t, "unix:"+path, nil), newCharge(t, "k", "10/s", 1))[0]; !d.Allowed {
		t.Errorf("%+v", d)
	}
}

// certificate is one for 127.0.0.1 that signs itself.
func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	own, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(own)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// Over TLS a server is asked whose certificate is known, and no other, and none without TLS.
func TestTLS(t *testing.T) {
	own, pool := certificate(t)
	srv := serveListener(t, listen(t), newService(t), grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{own}})))
	c := newCharge(t, "k", "10/s", 1)
	if d := mustTake(t, open(t, srv.addr, &Config{TLS: &tls.Config{RootCAs: pool}}), c)[0]; !d.Allowed {
		t.Errorf("%+v", d)
	}
	for _, cfg := range []*Config{{}, {TLS: &tls.Config{}}} {
		if _, err := open(t, srv.addr, cfg).Take(t.Context(), []tidegate.Charge{c}, nil); !errors.Is(err, tidegate.ErrStore) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}

// A connection of the caller's is used, and left open.
func TestNew(t *testing.T) {
	srv := serveListener(t, listen(t), newService(t))
	conn, err := grpc.NewClient(srv.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for range 2 {
		s, err := New(conn, &Config{Token: secret})
		if err != nil {
			t.Fatal(err)
		}
		mustTake(t, s, newCharge(t, "k", "10/s", 1))
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if _, err := s.Now(t.Context()); !errors.Is(err, tidegate.ErrClosed) {
			t.Error(err)
		}
	}
	if _, err := New(conn, &Config{TLS: &tls.Config{}}); err == nil {
		t.Error("TLS on a connection that was made")
	}
}

// A server that does not run is told from one that decides, at once and not after the timeout, once that is known.
func TestNoServer(t *testing.T) {
	l := listen(t)
	addr := l.Addr().String()
	l.Close()
	s := open(t, addr, &Config{Timeout: 30 * time.Second})
	from := time.Now()
	_, err := s.Take(t.Context(), []tidegate.Charge{newCharge(t, "k", "10/s", 1)}, nil)
	if !errors.Is(err, tidegate.ErrStore) || time.Since(from) > 15*time.Second {
		t.Errorf("%v after %v", err, time.Since(from))
	}
}
