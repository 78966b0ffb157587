// Package cow holds immutable maps whose versions share structure: a change copies the path to one leaf and leaves every older version as it was.
//
// Two kinds, each for what it is good at. Map is an ordered tree: sorted listing, scans by prefix, and Diff, which skips what two versions share. Hash is a
// hash trie: look-ups by a string or by bytes without an allocation, for tables on the message path.
//
// The package is a pure leaf: no lock is needed because nothing that was handed out is ever written again. meta builds the catalogue from Map
// (one version per applied command), exchange builds routers from Hash.
package cow
