"""Protection against SSRF: a URL from a stranger must not make this machine connect to its private network.

The check is for the address that is really connected to, never for the host name. A name can resolve to one address
when it is checked, and to another when it is used. So every connection is checked, also those after a redirect.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import Any

from holdfast.sources.source import SourceRefused

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

NOT_PUBLIC_V4 = tuple(
    map(
        ipaddress.IPv4Network,
        (
            "0.0.0.0/8",  # this network
            "10.0.0.0/8",  # private
            "100.64.0.0/10",  # behind a provider's NAT
            "127.0.0.0/8",  # loopback
            "168.63.129.16/32",  # Azure: services for its own machines
            "169.254.0.0/16",  # link-local: also the metadata services of clouds, which give credentials
            "172.16.0.0/12",  # private
            "192.0.0.0/24",  # protocols
            "192.0.2.0/24",  # documentation
            "192.88.99.0/24",  # relays to IPv6
            "192.168.0.0/16",  # private
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, and broadcast
        ),
    )
)
PUBLIC_V6 = ipaddress.IPv6Network("2000::/3")
NOT_PUBLIC_V6 = tuple(
    map(
        ipaddress.IPv6Network,
        (
            "2001::/23",  # protocols; tunnels that carry an IPv4 address
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4: carries an IPv4 address
            "3fff::/20",  # documentation
        ),
    )
)
NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


class PrivateAddress(SourceRefused):
    """A URL leads to a private network, and this is not allowed."""


class BlockedConnection(PermissionError):
    """A library was about to connect to an address that is not public."""


def is_public(address: str) -> bool:
    """Return True if an address is on the public internet. False if it cannot be parsed."""
    try:
        return _is_public(ipaddress.ip_address(address.partition("%")[0]))
    except ValueError:
        return False


def _is_public(address: Address) -> bool:
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in NOT_PUBLIC_V4)
    if address.ipv4_mapped is not None:
        return _is_public(address.ipv4_mapped)
    if address in NAT64:  # how networks without IPv4 reach IPv4 addresses
        return _is_public(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return address in PUBLIC_V6 and not any(address in network for network in NOT_PUBLIC_V6)


def resolve_public(host: str, port: int) -> list[str]:
    """Return the addresses of a host, or raise PrivateAddress if one of them is not public.

    A host in decimal, hex or octal form is an address for the resolver of the system. It is that address which is
    checked here and then connected to.
    """
    addresses = resolve(host, port)
    for address in addresses:
        if not is_public(address):
            raise private_address(host, address)
    return addresses


def resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a host, in the order in which the system would try them."""
    try:
        infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise SourceRefused(f"{host!r} is not a host name") from error
    return list(dict.fromkeys(str(info[4][0]) for info in infos))


def private_address(host: str, address: str) -> PrivateAddress:
    """Return the error for an address that is not public."""
    subject = host if host == address else f"{host} resolves to {address}, which"
    return PrivateAddress(
        f"{subject} is not an address of the public internet; if you trust it, allow private networks (--allow-private)"
    )


def open_checked_socket(info: tuple[Any, ...]) -> socket.socket:
    """Create the socket for one connection of aiohttp, or raise BlockedConnection if its address is not public.

    aiohttp calls this for every address that it connects to: of a name, a literal, or after a redirect.
    """
    family, kind, protocol, _, address = info
    if not is_public(str(address[0])):
        raise BlockedConnection(str(private_address(str(address[0]), str(address[0]))))
    return socket.socket(family, kind, protocol)
