package grpcserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/credentials"
)

// authority signs certificates of a test.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, dir, name string) *authority {
	t.Helper()
	a := &authority{t: t, dir: dir}
	a.key, a.cert = a.sign(&x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, name, nil)
	return a
}

// sign writes NAME.pem and NAME.key; without a parent the certificate signs itself.
func (a *authority) sign(c *x509.Certificate, name string, parent *authority) (*ecdsa.PrivateKey, *x509.Certificate) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c.SerialNumber, c.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: name}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	signer, signed := key, c
	if parent != nil {
		signer, signed = parent.key, parent.cert
	}
	der, err := x509.CreateCertificate(rand.Reader, c, signed, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{
		name + ".pem": {Type: "CERTIFICATE", Bytes: der}, name + ".key": {Type: "EC PRIVATE KEY", Bytes: keyDER},
	} {
		if err := os.WriteFile(filepath.Join(a.dir, file), pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return key, cert
}

// leaf writes a certificate for the DNS name.
func (a *authority) leaf(name, dns string) {
	a.sign(&x509.Certificate{DNSNames: []string{dns}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}, name, a)
}

func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

// client are credentials with the certificate of the name, if there is one.
func (a *authority) client(name string) credentials.TransportCredentials {
	c := &tls.Config{RootCAs: a.pool(), ServerName: "tidegate.test"}
	if name != "" {
		pair, err := tls.LoadX509KeyPair(filepath.Join(a.dir, name+".pem"), filepath.Join(a.dir, name+".key"))
		if err != nil {
			a.t.Fatal(err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return credentials.NewTLS(c)
}

func TestMutualTLS(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	a, other := newAuthority(t, dir, "ca"), newAuthority(t, dir, "other-ca")
	a.leaf("server", "tidegate.test")
	a.leaf("envoy", "envoy.test")
	a.leaf("stranger", "stranger.test")
	other.leaf("foreign", "envoy.test")
	files := TLSFiles{Cert: path("server.pem"), Key: path("server.key"), ClientCA: path("ca.pem"), ClientName: "envoy.test"}
	secured, err := files.Config()
	if err != nil {
		t.Fatal(err)
	}
	sv := serve(t, &Config{TLS: secured}, nil)
	for name, good := range map[string]bool{"envoy": true, "stranger": false, "foreign": false, "": false} {
		if err := call(t.Context(), dial(t, sv.addr, a.client(name))); (err == nil) != good {
			t.Errorf("client %q: %v", name, err)
		}
	}
	if err := call(t.Context(), dial(t, sv.addr, nil)); err == nil {
		t.Error("a client without TLS was answered")
	}

	// A new certificate is used without a restart; a key that is not there yet leaves the old pair in use.
	served := func() string {
		conn, err := tls.Dial("tcp", sv.addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	if got := served(); got != "server" {
		t.Errorf("the certificate of %q", got)
	}
	a.leaf("renewed", "tidegate.test")
	if err := os.Rename(path("renewed.pem"), path("server.pem")); err != nil {
		t.Fatal(err)
	}
	if got := served(); got != "server" {
		t.Errorf("half renewed: the certificate of %q", got)
	}
	if err := os.Rename(path("renewed.key"), path("server.key")); err != nil {
		t.Fatal(err)
	}
	if got := served(); got != "renewed" {
		t.Errorf("renewed: the certificate of %q", got)
	}
}

func TestTLSFilesAreTold(t *testing.T) {
	dir := t.TempDir()
	a := newAuthority(t, dir, "ca")
	a.leaf("server", "tidegate.test")
	path := func(name string) string { return filepath.Join(dir, name) }
	if c, err := new(TLSFiles).Config(); c != nil || err != nil {
		t.Errorf("nothing: %v, %v", c, err)
	}
	for want, f := range map[string]TLSFiles{
		"give a certificate and a key too": {ClientCA: path("ca.pem")},
		"give both":                        {Cert: path("server.pem")},
		"give a client CA too":             {Cert: path("server.pem"), Key: path("server.key"), ClientName: "x"},
		"no such file":                     {Cert: path("none.pem"), Key: path("server.key")},
		"no certificate in PEM":            {Cert: path("server.pem"), Key: path("server.key"), ClientCA: path("ca.key")},
	} {
		if _, err := f.Config(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", f, err, want)
		}
	}
}
