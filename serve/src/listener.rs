//! Opens listening sockets with the options every listener here wants.

use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{SocketAddr, TcpListener};

/// Connections that the kernel holds before they are accepted.
const BACKLOG: i32 = 1024;

/// Binds a non-blocking TCP listener.
///
/// With `reuse_port` several sockets may share the address and the kernel spreads connections over
/// them, which is how each worker thread gets an accept queue of its own. Port 0 picks a free port.
///
/// # Errors
///
/// The operating system's error, with the address in its text.
pub fn bind(address: SocketAddr, reuse_port: bool) -> io::Result<TcpListener> {
    open(address, reuse_port).map_err(|error| {
        io::Error::new(error.kind(), format!("cannot listen on {address}: {error}"))
    })
}

fn open(address: SocketAddr, reuse_port: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    if reuse_port {
        socket.set_reuse_port(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}
