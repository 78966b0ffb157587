package limits

// Bounds of what the configuration reads.
const (
	// ConfigFileBytesMax bounds a configuration file; a larger one is refused. Used by config.
	ConfigFileBytesMax = 1 << 20

	// SecretFileBytesMax bounds the file that key cluster.secret_file names. Used by config.
	SecretFileBytesMax = 4096
)
