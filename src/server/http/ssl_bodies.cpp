// The bodies of Asio's TLS streams, compiled once (see base/library_bodies.cpp).
#define BOOST_ASIO_SOURCE
#include <boost/asio/ssl/impl/src.hpp>
