//go:build walmutants

package wal

import (
	"os"
	"strconv"
)

// mutant is the planted bug that is on; the environment says which.
var mutant, _ = strconv.Atoi(os.Getenv("WARREN_WAL_MUTANT"))
