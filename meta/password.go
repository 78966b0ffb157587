package meta

import (
	"crypto/md5"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
)

// The hashing algorithms of passwords by the names that RabbitMQ's definitions use. All hash a 4-byte salt and the password once.
const (
	DefaultHashing = "rabbit_password_hashing_sha256"
	HashingSHA512  = "rabbit_password_hashing_sha512"
	HashingMD5     = "rabbit_password_hashing_md5"
)

// saltBytes is the length of the salt at the front of a hash.
const saltBytes = 4

// HashPassword returns the salt and the SHA-256 digest of salt and password, as RabbitMQ stores it. The salt must be random.
func HashPassword(salt [saltBytes]byte, password []byte) []byte {
	return append(salt[:], digest(DefaultHashing, salt[:], password)...)
}

// CheckPassword tells in constant time whether the password belongs to a hash. An empty hash, an unknown algorithm and an empty password fit nothing.
func CheckPassword(algorithm string, hash, password []byte) bool {
	if len(hash) <= saltBytes || len(password) == 0 {
		return false
	}
	want := digest(algorithm, hash[:saltBytes], password)
	return want != nil && subtle.ConstantTimeCompare(want, hash[saltBytes:]) == 1
}

// KnownHashing tells whether CheckPassword knows the algorithm. The empty name stands for the default.
func KnownHashing(algorithm string) bool { return digest(algorithm, nil, nil) != nil }

func digest(algorithm string, salt, password []byte) []byte {
	salted := append(append(make([]byte, 0, len(salt)+len(password)), salt...), password...)
	switch algorithm {
	case "", DefaultHashing:
		sum := sha256.Sum256(salted)
		return sum[:]
	case HashingSHA512:
		sum := sha512.Sum512(salted)
		return sum[:]
	case HashingMD5:
		sum := md5.Sum(salted)
		return sum[:]
	}
	return nil
}
