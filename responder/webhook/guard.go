package webhook

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"
)

// errForbidden reports that a name resolves to an address that must not be
// called.
var errForbidden = errors.New("the address is private, local or reserved")

// never are the addresses that are never called: unspecified, multicast and
// link-local ones, and the metadata services of clouds.
var never = prefixes(
	"0.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "240.0.0.0/4",
	"100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32",
	"::/128", "fe80::/10", "ff00::/8", "fd00:ec2::/32", "fd20:ce::/32",
)

// private are the addresses that are called only if that is configured.
var private = prefixes(
	"10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24",
	"192.168.0.0/16",
	"198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
	"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
)

var (
	global = netip.MustParsePrefix("2000::/3")     // all allocated IPv6 addresses; the rest is not public
	nat64  = netip.MustParsePrefix("64:ff9b::/96") // an IPv4 address is in the last four bytes
)

// wrapped are the private IPv6 prefixes that embed an IPv4 address: local-use
// NAT64, and 6to4.
var wrapped = []struct {
	in netip.Prefix
	at int // offset of the IPv4 address
}{{netip.MustParsePrefix("64:ff9b:1::/48"), 12}, {netip.MustParsePrefix("2002::/16"), 2}}

func prefixes(list ...string) []netip.Prefix {
	all := make([]netip.Prefix, len(list))
	for i, s := range list {
		all[i] = netip.MustParsePrefix(s)
	}
	return all
}

// allowed reports whether a receiver may have an address; local also allows
// private networks and this machine.
func allowed(ip netip.Addr, local bool) bool {
	if !ip.IsValid() || ip.Zone() != "" {
		return false
	}
	ip = ip.Unmap()
	if nat64.Contains(ip) {
		b := ip.As16()
		ip = netip.AddrFrom4([4]byte(b[12:]))
	}
	in := func(list []netip.Prefix, ip netip.Addr) bool {
		return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(ip) })
	}
	for _, w := range wrapped {
		if b := ip.As16(); w.in.Contains(ip) && in(never, netip.AddrFrom4([4]byte(b[w.at:w.at+4]))) {
			return false
		}
	}
	switch {
	case in(never, ip):
		return false
	case local:
		return true
	case in(private, ip):
		return false
	}
	return ip.Is4() || global.Contains(ip)
}

// checkDialed refuses to connect to an address that is not allowed. It sees the
// address of the connection, after the name was resolved.
func checkDialed(local bool) func(network, address string, _ syscall.RawConn) error {
	return func(network, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil || network != "tcp4" && network != "tcp6" {
			return fmt.Errorf("%w: it is of no known form", errForbidden)
		}
		if !allowed(at.Addr(), local) {
			return errForbidden
		}
		return nil
	}
}
