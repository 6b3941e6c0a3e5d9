"""SSRF: what is never connected to, however it is written, and whatever a name resolves to."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Sequence

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.service.config import OutgoingKeys
from loadgen.service.outgoing import Outgoing, Refused, client_for, embedded, kind_of, read_url


class Dns:
    """A tiny name server: each name's answers in turn, the last one for ever."""

    def __init__(self, **names: Sequence[Sequence[str]]) -> None:
        self.names = {name.replace("_", "."): list(answers) for name, answers in names.items()}
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        answers = self.names.get(host)
        if answers is None:
            raise OSError("no such name")
        return answers.pop(0) if len(answers) > 1 else answers[0]


def outgoing(dns: Dns | None = None, networks: Sequence[str] = (), hosts: Sequence[str] = ()) -> Outgoing:
    return Outgoing(OutgoingKeys(hosts=list(hosts), networks=list(networks)), dns or Dns())


INSIDE = [
    "http://169.254.169.254/latest/meta-data/", "http://127.0.0.1:8000", "http://10.1.2.3", "http://172.16.0.1",
    "http://192.168.1.1", "http://0.0.0.0", "http://100.64.0.1", "http://100.100.100.200", "http://168.63.129.16",
    "http://224.0.0.1", "http://255.255.255.255", "http://192.0.0.8", "http://198.18.0.1", "http://[::1]", "http://[::]",
    "http://[fe80::1]", "http://[fd00:ec2::254]", "http://[fc00::1]", "http://[ff02::1]", "http://[::ffff:127.0.0.1]",
    "http://[::ffff:a9fe:a9fe]", "http://[::127.0.0.1]", "http://[64:ff9b::169.254.169.254]", "http://[2002:7f00:1::]",
    "http://[2002:a9fe:a9fe::1]", "http://[64:ff9b:1::7f00:1]", "http://[2001:0:4136:e378:8000:63bf:80ff:fffe]",
    "http://127.0.0.1.", "http://①②⑦.⓪.⓪.①", "http://１２７.0.0.1", "http://127。0。0。1",
]  # fmt: skip
UNREADABLE = [
    "http://127.1", "http://127.0.1", "http://2130706433", "http://0x7f000001", "http://0x7f.0.0.1", "http://0177.0.0.1",
    "http://017700000001", "http://127.0.0.01", "http://0", "http://0x0", "http://1.2.3.4.5", "http://999.1.1.1",
    "http://user@example.com", "http://user:pw@example.com", "http://example.com@169.254.169.254", "http://@example.com",
    "ftp://example.com", "file:///etc/passwd", "gopher://example.com", "javascript:alert(1)", "//example.com", "a.com",
    "http://", "http:///x", "http://exa mple.com", "http://example.com\\@169.254.169.254", "http://a.com\r\nHost: x",
    "http://example.com\t", "http://[fe80::1%25eth0]", "http://[::1", "http://[zz]", "http://example..com", "http://-a.com",
    "http://a-.com", "http://" + "a" * 64 + ".com", "http://" + "a." * 130 + "com", "http://example.com:0",
    "http://example.com:65536", "http://example.com:x", "http://.com", "http://exam_ple.c%6fm", "http://a#b@c", "http://。",
]  # fmt: skip


@pytest.mark.parametrize("url", INSIDE)
async def test_addresses_that_are_not_public_are_refused(url: str) -> None:
    """I5: metadata, loopback, private, mapped and embedded ones, however they are written."""
    with pytest.raises(Refused, match=r"not connected to unless outgoing\.networks has it"):
        await outgoing().check(url, listed=True)


@pytest.mark.parametrize("url", UNREADABLE)
async def test_urls_that_can_be_read_in_two_ways_are_refused(url: str) -> None:
    """I5: no user, no odd number, no other scheme; a URL's host is what it looks like."""
    with pytest.raises(Refused):
        await outgoing(Dns(example_com=[["93.184.216.34"]], c=[["93.184.216.34"]])).check(url, listed=True)


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "169.254.169.254", "::1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "0.0.0.0"]
)
async def test_names_that_lead_inside_are_refused(address: str) -> None:
    """I5: also where only one of several addresses does."""
    dns = Dns(evil_example=[["93.184.216.34", address]])
    with pytest.raises(Refused, match=r"evil\.example is at"):
        await outgoing(dns).check("http://evil.example/x", listed=True)


async def test_what_was_checked_is_what_is_connected_to() -> None:
    """I7: a name that is public when it is looked at and private a moment later is asked at the first address."""
    dns = Dns(rebinding_example=[["93.184.216.34"], ["169.254.169.254"]])
    checked = await outgoing(dns).check("http://rebinding.example/x", listed=True)
    assert checked.address == "93.184.216.34"
    assert dns.asked == ["rebinding.example"]
    with pytest.raises(Refused):
        await outgoing(dns).check("http://rebinding.example/x", listed=True)


async def test_several_urls_of_one_host_are_one_look_up() -> None:
    dns = Dns(a_example=[["93.184.216.34"], ["10.0.0.1"]])
    found = await outgoing(dns).check_all(["http://a.example/1", "https://A.EXAMPLE./2"], listed=True)
    assert [(one.url, one.port, one.address) for one in found] == [
        ("http://a.example/1", 80, "93.184.216.34"), ("https://a.example/2", 443, "93.184.216.34"),
    ]  # fmt: skip


async def test_networks_open_what_they_hold_and_nothing_else() -> None:
    """I7: loopback must stay possible for local models, explicitly."""
    opened = outgoing(networks=["127.0.0.0/8", "10.0.0.0/24"])
    assert (await opened.check("http://127.0.0.1:8000", listed=True)).server == ("127.0.0.1", 8000)
    assert (await opened.check("http://10.0.0.9", listed=True)).port == 80
    with pytest.raises(Refused, match="a private address"):
        await opened.check("http://10.0.1.9", listed=True)
    with pytest.raises(Refused, match="loopback"):
        await opened.check("http://[::1]", listed=True)


@pytest.mark.parametrize("url", ["http://169.254.169.254", "http://[fe80::1]", "http://0.0.0.0"])
async def test_no_wide_network_opens_metadata(url: str) -> None:
    """I5: who wants that says so address by address."""
    host = url.removeprefix("http://").strip("[]")
    with pytest.raises(Refused, match="one by one"):
        await outgoing(networks=["0.0.0.0/0", "::/0", "169.254.0.0/16", "fe80::/10"]).check(url, listed=True)
    own = ipaddress.ip_address(host)
    assert (await outgoing(networks=[str(own)]).check(url, listed=True)).address == str(own)


async def test_embedded_addresses_need_both_to_be_open() -> None:
    """A NAT64 or 6to4 address is not opened by its own network alone."""
    with pytest.raises(Refused):
        await outgoing(networks=["64:ff9b::/96"]).check("http://[64:ff9b::7f00:1]", listed=True)
    found = await outgoing(networks=["64:ff9b::/96", "127.0.0.1/32"]).check("http://[64:ff9b::7f00:1]", listed=True)
    assert found.host == "64:ff9b::7f00:1"


async def test_hosts_of_hooks_are_listed() -> None:
    """I8: webhooks and kill switches go to listed hosts only, and are checked all the same."""
    dns = Dns(hooks_example=[["93.184.216.34"]], a_b_example=[["93.184.216.34"]], b_example=[["93.184.216.34"]],
              inner_example=[["10.0.0.1"]])  # fmt: skip
    listed = outgoing(dns, hosts=["hooks.example", "*.b.example", "inner.example"])
    assert (await listed.check("https://HOOKS.example./x")).host == "hooks.example"
    assert (await listed.check("https://a.b.example")).host == "a.b.example"
    for url in ("https://b.example", "https://xhooks.example", "https://evil.hooks.example", "https://other.example"):
        with pytest.raises(Refused, match=r"not among outgoing\.hosts"):
            await listed.check(url)
    with pytest.raises(Refused, match="private"):
        await listed.check("https://inner.example")


async def test_names_in_other_scripts_are_compared_as_they_are_looked_up() -> None:
    dns = Dns(**{"xn--mnchen-3ya_de": [["93.184.216.34"]]})
    found = await outgoing(dns, hosts=["münchen.de"]).check("https://MÜNCHEN.de/x")
    assert (found.host, found.url) == ("xn--mnchen-3ya.de", "https://xn--mnchen-3ya.de/x")


async def test_names_without_an_address_are_refused() -> None:
    for dns in (Dns(), Dns(empty_example=[[]])):
        with pytest.raises(Refused):
            await outgoing(dns).check("http://empty.example", listed=True)


async def test_a_slow_name_server_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loadgen.service.outgoing.LOOK_UP_TIMEOUT_S", 0.05)

    async def slow(_host: str, _port: int) -> Sequence[str]:
        await asyncio.sleep(3600)
        return []

    with pytest.raises(Refused, match="cannot be looked up"):
        await Outgoing(OutgoingKeys(), slow).check("http://slow.example", listed=True)


async def serving(answer: bytes) -> tuple[asyncio.Server, int, list[bytes]]:
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    return server, server.sockets[0].getsockname()[1], heads


async def test_the_client_connects_to_the_checked_address_under_the_urls_name() -> None:
    server, port, heads = await serving(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi")
    dns = Dns(model_internal=[["127.0.0.1"]])
    async with server:
        checked = await outgoing(dns, ["127.0.0.0/8"]).check(f"http://model.internal:{port}/x", listed=True)
        async with client_for(checked, 5) as client:
            assert (await client.get(checked.url)).text == "hi"
            with pytest.raises(httpx.ConnectError):
                await client.get(f"http://localhost:{port}/x")
    assert f"host: model.internal:{port}".encode() in heads[0].lower()
    assert len(heads) == 1


async def test_the_client_of_an_internationalised_name_is_pinned_too() -> None:
    """I7: httpx reads xn-- names back into their own script."""
    server, port, heads = await serving(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi")
    async with server:
        dns = Dns(**{"xn--mnchen-3ya_test": [["127.0.0.1"]]})
        checked = await outgoing(dns, ["127.0.0.0/8"]).check(f"http://münchen.test:{port}/x", listed=True)
        async with client_for(checked, 5) as client:
            assert (await client.get(checked.url)).text == "hi"
    assert f"host: xn--mnchen-3ya.test:{port}".encode() in heads[0].lower()


async def test_redirects_are_not_followed() -> None:
    """I5: a redirect inside is an answer like any other."""
    server, port, heads = await serving(
        b"HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/\r\ncontent-length: 0\r\n\r\n"
    )
    async with server:
        checked = await outgoing(networks=["127.0.0.0/8"]).check(f"http://127.0.0.1:{port}/", listed=True)
        async with client_for(checked, 5) as client:
            assert (await client.get(checked.url)).status_code == 302
    assert len(heads) == 1


@given(st.ip_addresses(v=4))
def test_whatever_embeds_an_address_is_judged_by_it(address: ipaddress.IPv4Address) -> None:
    bits = int(address)
    for base, shift in ((0xFFFF << 32, 0), (0x64FF9B << 96, 0), (0x2002 << 112, 80)):
        outer = ipaddress.IPv6Address(base | bits << shift)
        assert address in embedded(outer)
        if kind_of(address) is not None:
            with pytest.raises(Refused):
                outgoing().permit(str(outer), outer)


@given(st.text(max_size=40))
def test_no_text_is_read_but_as_a_plain_host(text: str) -> None:
    try:
        host, port = read_url(f"http://{text}/")
    except Refused:
        return
    assert host.isascii()
    assert host == host.lower()
    assert not set(host) & set("@\\/?#% \t\r\n")
    assert 0 < port < 65536
