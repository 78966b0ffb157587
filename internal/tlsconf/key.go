package tlsconf

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"hash"
)

var (
	errNoPassword    = errors.New("it is encrypted and no password is set")
	errWrongPassword = errors.New("it is encrypted and the password does not open it")
	errCipher        = errors.New("it is encrypted in a way that is not supported; PBES2 with PBKDF2 and AES-CBC is, as `openssl pkcs8 -topk8 -v2 aes256` makes it")
)

// decryptKey opens an encrypted key; any other is returned as it is.
func decryptKey(text []byte, password string) ([]byte, error) {
	for rest := text; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return text, nil
		}
		legacy := x509.IsEncryptedPEMBlock(block) //nolint:staticcheck // RabbitMQ's users have such keys
		if !legacy && block.Type != "ENCRYPTED PRIVATE KEY" {
			continue
		}
		if password == "" {
			return nil, errNoPassword
		}
		if legacy {
			der, err := x509.DecryptPEMBlock(block, []byte(password)) //nolint:staticcheck // as above
			if err != nil {
				return nil, errWrongPassword
			}
			return pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: der}), nil
		}
		der, err := openPKCS8(block.Bytes, password)
		if err != nil {
			return nil, err
		}
		return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
	}
}

// encryptedKey and what follows are RFC 5958 and RFC 8018.
type encryptedKey struct {
	Algorithm struct {
		ID     asn1.ObjectIdentifier
		Params pbes2
	}
	Data []byte
}

type pbes2 struct {
	Derivation struct {
		ID     asn1.ObjectIdentifier
		Params pbkdf2Params
	}
	Cipher struct {
		ID asn1.ObjectIdentifier
		IV []byte
	}
}

type pbkdf2Params struct {
	Salt      []byte
	Rounds    int
	KeyLength int                      `asn1:"optional"`
	PRF       pkix.AlgorithmIdentifier `asn1:"optional"`
}

// roundsMax bounds the work that a key's file asks for.
const roundsMax = 10_000_000

func openPKCS8(der []byte, password string) ([]byte, error) {
	var k encryptedKey
	if rest, err := asn1.Unmarshal(der, &k); err != nil || len(rest) > 0 {
		return nil, errCipher
	}
	p := &k.Algorithm.Params
	keyBytes := map[string]int{"2.16.840.1.101.3.4.1.2": 16, "2.16.840.1.101.3.4.1.22": 24, "2.16.840.1.101.3.4.1.42": 32}[p.Cipher.ID.String()]
	prf := map[string]func() hash.Hash{
		"": sha1.New, "1.2.840.113549.2.7": sha1.New, "1.2.840.113549.2.9": sha256.New, "1.2.840.113549.2.10": sha512.New384, "1.2.840.113549.2.11": sha512.New,
	}[p.Derivation.Params.PRF.Algorithm.String()]
	isPBES2 := k.Algorithm.ID.String() == "1.2.840.113549.1.5.13" && p.Derivation.ID.String() == "1.2.840.113549.1.5.12"
	rounds := p.Derivation.Params.Rounds
	if !isPBES2 || keyBytes == 0 || prf == nil || len(p.Cipher.IV) != aes.BlockSize || rounds <= 0 || rounds > roundsMax {
		return nil, errCipher
	}
	key, err := pbkdf2.Key(prf, password, p.Derivation.Params.Salt, rounds, keyBytes)
	if err != nil {
		return nil, errCipher
	}
	block, err := aes.NewCipher(key)
	if err != nil || len(k.Data) == 0 || len(k.Data)%aes.BlockSize != 0 {
		return nil, errCipher
	}
	out := make([]byte, len(k.Data))
	cipher.NewCBCDecrypter(block, p.Cipher.IV).CryptBlocks(out, k.Data)
	pad := int(out[len(out)-1])
	if pad == 0 || pad > aes.BlockSize {
		return nil, errWrongPassword
	}
	for _, b := range out[len(out)-pad:] {
		if int(b) != pad {
			return nil, errWrongPassword
		}
	}
	return out[:len(out)-pad], nil
}
