"""``lakehouse demo --models``: card payments and late chargebacks, from labels to a model in use, and back.

The payments are generated in ``examples.card_payments``. Steps that other commands do, too, are those commands' own functions.
"""
