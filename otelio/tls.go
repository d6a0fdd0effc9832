package otelio

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// config loads the files. An empty set gives the system's own authorities and no client certificate.
func (f tlsFiles) config() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.ca != "" {
		pem, err := os.ReadFile(f.ca)
		if err != nil {
			return nil, fmt.Errorf("read CA certificate: %v", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read CA certificate %s: no certificate in it", f.ca)
		}
	}
	if (f.cert == "") != (f.key == "") {
		return nil, fmt.Errorf("a client certificate needs both OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and _CLIENT_KEY")
	}
	if f.cert != "" {
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return nil, fmt.Errorf("load client certificate: %v", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
