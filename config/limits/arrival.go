package limits

// Bounds of how clients arrive.
const (
	// TLSHandshakeTimeoutMillis is the default of key ssl_handshake_timeout: how long a TLS handshake may take, else the socket is closed. Used by config.
	TLSHandshakeTimeoutMillis = 5_000

	// CertificateFileBytesMax bounds a file of certificates or of a key; a larger one is not used. Used by internal/tlsconf.
	CertificateFileBytesMax = 1 << 20

	// CertificatePollMillis is the pause between two looks at whether certificates' files have changed. Used by internal/node.
	CertificatePollMillis = 2_000

	// TLSDepthMax is the default of the keys ssl_options.depth: certificates between a client's and an authority's. Used by config.
	TLSDepthMax = 10

	// ProxyHeaderBytesMax bounds what may follow the fixed part of a PROXY header of version 2, addresses and all; beyond it the connection is closed. Used by internal/proxyproto.
	ProxyHeaderBytesMax = 2_048
)

// Bounds of guessing passwords, for each address that clients log in from (of IPv6, each network of 64 bits).
const (
	// LoginFailuresFree is how many logins may fail before further ones have to wait. Used by internal/guess.
	LoginFailuresFree = 5

	// LoginFailureMillis is after how long one failure is forgotten: LoginFailuresFree in ten seconds are free. Used by internal/guess.
	LoginFailureMillis = 2_000

	// LoginDelayMillis is the first wait, which doubles with each failure up to LoginDelayMillisMax. Used by internal/guess.
	LoginDelayMillis    = 250
	LoginDelayMillisMax = 5_000

	// LoginAddressesMax is how many addresses with failures are remembered; beyond it some are forgotten. Used by internal/guess.
	LoginAddressesMax = 16_384
)
