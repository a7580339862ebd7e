"""What each surface of the product says of a published number, read from what it prints, and the comparison of all of them."""
