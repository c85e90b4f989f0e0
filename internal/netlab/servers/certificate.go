package servers

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"time"
)

// CA is a certificate authority in memory.
type CA struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pem  []byte
}

// Certificate is a server's certificate with its key.
type Certificate struct {
	pair            tls.Certificate
	certPEM, keyPEM []byte
}

// CertificateConfig says what a certificate holds.
type CertificateConfig struct {
	Names []string
	Addrs []netip.Addr
	// NotBefore and NotAfter; zero means yesterday and in a year.
	NotBefore, NotAfter time.Time
}

// Expired returns the config with a validity that ended yesterday.
func (c CertificateConfig) Expired() CertificateConfig {
	c.NotBefore, c.NotAfter = time.Now().Add(-30*24*time.Hour), time.Now().Add(-24*time.Hour)
	return c
}

// NewCA makes an authority.
func NewCA() (*CA, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("servers: making a key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "whyslow lab CA"},
		NotBefore:    time.Now().Add(-365 * 24 * time.Hour), NotAfter: time.Now().Add(365 * 24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("servers: making a CA: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("servers: making a CA: %w", err)
	}
	return &CA{key: key, cert: cert, pem: encodePEM("CERTIFICATE", der)}, nil
}

// PEM is the authority's own certificate, as a --cacert file holds it.
func (ca *CA) PEM() []byte { return ca.pem }

// Pool is a pool that trusts the authority alone.
func (ca *CA) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	return pool
}

// Issue makes a server certificate.
func (ca *CA) Issue(c CertificateConfig) (*Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("servers: making a key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 100))
	if err != nil {
		return nil, fmt.Errorf("servers: making a serial number: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, DNSNames: c.Names,
		NotBefore: c.NotBefore, NotAfter: c.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if len(c.Names) > 0 {
		template.Subject.CommonName = c.Names[0]
	}
	for _, a := range c.Addrs {
		template.IPAddresses = append(template.IPAddresses, net.IP(a.AsSlice()))
	}
	if c.NotBefore.IsZero() {
		template.NotBefore = time.Now().Add(-24 * time.Hour)
	}
	if c.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(365 * 24 * time.Hour)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, key.Public(), ca.key)
	if err != nil {
		return nil, fmt.Errorf("servers: issuing a certificate: %w", err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("servers: issuing a certificate: %w", err)
	}
	return &Certificate{
		pair:    tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
		certPEM: encodePEM("CERTIFICATE", der), keyPEM: encodePEM("EC PRIVATE KEY", keyDER),
	}, nil
}

func encodePEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
