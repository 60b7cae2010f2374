"""Which ports of this machine can be listened on, and in words why not."""

import errno
import itertools
import socket

from terminal import Failure

FIRST_METRICS_PORT = 9100
TRIED_METRICS_PORTS = 1000


def refused(host, port):
    """The error number of listening there, None where that works. Port 0 asks about the address alone."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            return None
        except OSError as error:
            return error.errno


def port_is_free(host, port):
    return refused(host, port) is None


def require(host, ports, host_option, remedy):
    """Raises Failure unless every one of `ports` can be listened on."""
    numbers = {port: refused(host, port) for port in ports}
    taken = [port for port in ports if numbers[port] == errno.EADDRINUSE]
    if taken:
        raise Failure(f"{host}:{listed(taken)} {'is' if len(taken) == 1 else 'are'} in use; {remedy}")
    number = next((number for number in numbers.values() if number is not None), None)
    if number == errno.EADDRNOTAVAIL:
        raise Failure(f"{host_option} {host}: not an address of this machine")
    if number is not None:
        raise Failure(f"{host}:{listed(ports)}: {errno.errorcode.get(number, number)}; {remedy}")


def metrics_ports(options, terminal, count):
    """A port for each of `count` processes: any (0) with --port 0; the asked ones or a Failure with --metrics-port; else
    from 9100 on, those that are free, and a word if that is not where they are looked for."""
    host = options.metrics_host
    require(host, [0], "--metrics-host", "choose another with --metrics-host")
    if options.metrics_port is not None:
        wanted = range(options.metrics_port, options.metrics_port + count)
        require(host, wanted, "--metrics-host", f"choose another with --metrics-port (the first of {count})")
        return iter(wanted)
    if options.port == 0:
        return iter([0] * count)
    tried = range(FIRST_METRICS_PORT, FIRST_METRICS_PORT + TRIED_METRICS_PORTS)
    spare = (port for port in tried if port_is_free(host, port))
    ports = list(itertools.islice(itertools.chain(spare, itertools.repeat(0)), count))
    usual = range(FIRST_METRICS_PORT, FIRST_METRICS_PORT + count)
    if taken := [port for port in usual if port not in ports]:
        verb = "is" if len(taken) == 1 else "are"
        terminal.say("note", f"metrics: {listed(taken)} {verb} in use by others, so the ports are {listed(ports)}")
    return iter(ports)


def listed(numbers):
    return ", ".join(str(number) for number in numbers)
