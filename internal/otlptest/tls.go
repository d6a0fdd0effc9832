package otlptest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Certificates are the files of an authority of one's own, in PEM.
type Certificates struct {
	CA                    string
	ClientCert, ClientKey string
	server                tls.Certificate
	pool                  *x509.CertPool
}

// StartTLS starts a server that speaks TLS and asks for a client certificate of the same authority.
func StartTLS(t testing.TB) (*Server, Certificates) {
	t.Helper()
	c := newCertificates(t)
	return start(t, &tls.Config{
		Certificates: []tls.Certificate{c.server}, ClientCAs: c.pool, ClientAuth: tls.RequireAndVerifyClientCert,
		NextProtos: []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS12,
	}), c
}

func newCertificates(t testing.TB) Certificates {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("make certificates: %v", err)
		}
	}
	dir := t.TempDir()
	file := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		must(os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return path
	}
	newKey := func() *ecdsa.PrivateKey {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		must(err)
		return key
	}
	template := func(serial int64) *x509.Certificate {
		return &x509.Certificate{
			SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "ptlaunch test"},
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
			IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
			KeyUsage:    x509.KeyUsageDigitalSignature,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		}
	}
	caKey, ca := newKey(), template(1)
	ca.IsCA, ca.BasicConstraintsValid, ca.KeyUsage = true, true, x509.KeyUsageCertSign
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	must(err)
	pair := func(serial int64, name string) (cert, key string) {
		k := newKey()
		der, err := x509.CreateCertificate(rand.Reader, template(serial), ca, &k.PublicKey, caKey)
		must(err)
		keyDER, err := x509.MarshalECPrivateKey(k)
		must(err)
		return file(name+".pem", "CERTIFICATE", der), file(name+".key", "EC PRIVATE KEY", keyDER)
	}
	c := Certificates{CA: file("ca.pem", "CERTIFICATE", caDER), pool: x509.NewCertPool()}
	parsed, err := x509.ParseCertificate(caDER)
	must(err)
	c.pool.AddCert(parsed)
	serverCert, serverKey := pair(2, "server")
	c.server, err = tls.LoadX509KeyPair(serverCert, serverKey)
	must(err)
	c.ClientCert, c.ClientKey = pair(3, "client")
	return c
}
