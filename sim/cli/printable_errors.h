#pragma once

#include <iostream>
#include <streambuf>

namespace kvsim::cli {

/// While it lives, whatever is written to standard error is printable, as names from files may hold
/// anything. Each insertion is a line or a part of one; of its control characters, only a leading
/// '\r' and a trailing '\n' remain.
class PrintableErrors : std::streambuf {
 public:
  PrintableErrors() : below_(std::cerr.rdbuf(this)) {}
  ~PrintableErrors() override { std::cerr.rdbuf(below_); }
  PrintableErrors(const PrintableErrors&) = delete;
  PrintableErrors& operator=(const PrintableErrors&) = delete;

 private:
  std::streamsize xsputn(const char* text, std::streamsize size) override;
  int_type overflow(int_type character) override;
  int sync() override { return below_->pubsync(); }

  std::streambuf* below_;
};

}  // namespace kvsim::cli
