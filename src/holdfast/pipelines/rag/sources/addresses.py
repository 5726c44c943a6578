"""Addresses that are nobody's business: a URL from outside must not make this machine ask its own neighbours.

What is checked is the address that is really connected to, never the name: a name can resolve to one address when it
is checked and to another when it is used. So every connection goes through here, those after a redirect as well.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import Any

from holdfast.pipelines.rag.sources.source import SourceRefused

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

NOT_PUBLIC_V4 = tuple(
    map(
        ipaddress.IPv4Network,
        (
            "0.0.0.0/8",  # this network
            "10.0.0.0/8",  # private
            "100.64.0.0/10",  # behind a provider's NAT
            "127.0.0.0/8",  # this machine
            "168.63.129.16/32",  # what Azure tells its own machines
            "169.254.0.0/16",  # link-local: also where clouds hand out credentials
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
    """A URL leads into a private network, and nobody allowed that."""


class ConnectionRefusedHere(PermissionError):
    """A library was about to connect to an address that is not public."""


def is_public(address: str) -> bool:
    """Answers whether an address is one of the open internet. What cannot be understood is not."""
    try:
        return _is_public(ipaddress.ip_address(address.partition("%")[0]))
    except ValueError:
        return False


def _is_public(address: Address) -> bool:
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in NOT_PUBLIC_V4)
    if address.ipv4_mapped is not None:
        return _is_public(address.ipv4_mapped)
    if address in NAT64:  # how a network without IPv4 reaches the rest
        return _is_public(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return address in PUBLIC_V6 and not any(address in network for network in NOT_PUBLIC_V6)


def public_addresses(host: str, port: int) -> list[str]:
    """Gives the addresses of a host, or refuses it when one of them is not public.

    A host in decimal, hex or octal form is one for the system's resolver, which makes an address of it; it is that
    address which is looked at, here and by whoever connects.
    """
    found = addresses(host, port)
    for address in found:
        if not is_public(address):
            raise refusal(host, address)
    return found


def addresses(host: str, port: int) -> list[str]:
    """Gives the addresses of a host, in the order in which the system would try them."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise SourceRefused(f"{host!r} is no name of a host") from error
    return list(dict.fromkeys(str(one[4][0]) for one in found))


def refusal(host: str, address: str) -> PrivateAddress:
    """Words the refusal of an address."""
    leads = host if host == address else f"{host} leads to {address}, which"
    return PrivateAddress(
        f"{leads} is no address of the open internet; if you trust it, allow private networks (--allow-private)"
    )


def checked_socket(info: tuple[Any, ...]) -> socket.socket:
    """Makes the socket for one connection of aiohttp, unless its address is not public.

    aiohttp asks for a socket for every address that it connects to: of a name, a literal, or after a redirect.
    """
    family, kind, protocol, _, where = info
    if not is_public(str(where[0])):
        raise ConnectionRefusedHere(str(refusal(str(where[0]), str(where[0]))))
    return socket.socket(family, kind, protocol)
