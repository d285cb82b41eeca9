#pragma once

#include <boost/program_options/errors.hpp>
#include <string>

namespace kvsim::cli {

/// What Boost says of options that it cannot parse. Its what() puts values in for names like
/// %value%, and again in what it has put in: it does not end where a value reads so itself.
std::string option_message(boost::program_options::error& error);

}  // namespace kvsim::cli
