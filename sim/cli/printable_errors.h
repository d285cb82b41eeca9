#pragma once

#include <iostream>
#include <streambuf>

namespace kvsim::cli {

/// While it lives, whatever is written to standard error is printable: names out of files may hold
/// anything. What is inserted at once is a line or a part of one; of its control characters, '\r'
/// before it and '\n' behind it remain.
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
